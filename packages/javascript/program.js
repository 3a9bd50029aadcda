// The program: that which `PARSHALL` names, the one in this package, or the one on the `PATH`.

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const CARRIED = fileURLToPath(new URL("bin/parshall", import.meta.url));

/**
 * The path of the program to start. Throws if there is none, or if the one that `PARSHALL` names can't be executed.
 *
 * @param {NodeJS.ProcessEnv} environment
 * @param {string} carried where the one in this package is
 * @returns {string}
 */
export function find(environment = process.env, carried = CARRIED) {
  const named = environment.PARSHALL;
  if (named) {
    const found = named.includes("/") ? [named] : onPath(named, environment);
    const program = found.find(isExecutable);
    if (!program) {
      throw new Error(`PARSHALL=${named} is not a program that can be executed`);
    }
    return program;
  }
  const program = [carried, ...onPath("parshall", environment)].find(isExecutable);
  if (!program) {
    throw new Error(
      "there is no program `parshall`: this package was installed without one, and there is none on the PATH; " +
        "install the package for this platform, or set PARSHALL to the path of the program",
    );
  }
  return program;
}

function onPath(name, environment) {
  const directories = (environment.PATH ?? "").split(delimiter).filter((directory) => directory !== "");
  return directories.map((directory) => join(directory, name));
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
