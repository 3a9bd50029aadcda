"""The program: that which `PARSHALL` names, the one in this package, or the one on the `PATH`."""

import os
import shutil
import sys
from pathlib import Path

CARRIED = Path(__file__).parent / "bin" / "parshall"


class NoProgram(RuntimeError):
    """There is no program to start."""


def find() -> str:
    """The path of the program to start.

    Raises NoProgram if there is none, or if the one that `PARSHALL` names can't be executed.
    """
    named = os.environ.get("PARSHALL")
    if named:
        found = shutil.which(named)
        if found is None:
            raise NoProgram(f"PARSHALL={named} is not a program that can be executed")
        return found
    if CARRIED.is_file():
        return str(CARRIED)
    found = shutil.which("parshall")
    if found is None:
        raise NoProgram(
            "there is no program `parshall`: this package was installed without one, and there is none on the PATH; "
            "install a wheel for this platform, or set PARSHALL to the path of the program"
        )
    return found


def main() -> None:
    """Becomes the program, with the arguments of this process: the command `parshall` of the package."""
    if not CARRIED.is_file() and not os.environ.get("PARSHALL"):
        # What is on the PATH may be this command.
        sys.exit("parshall: this package was installed without the program; set PARSHALL to its path")
    try:
        program = find()
    except NoProgram as error:
        sys.exit(f"parshall: {error}")
    os.execv(program, [program, *sys.argv[1:]])
