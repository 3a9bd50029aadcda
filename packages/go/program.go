package parshalltest

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed all:program
var carried embed.FS

// findProgram gives the program to start: that which PARSHALL names, the one in this module, or the one on the PATH.
func findProgram(carried fs.FS) (string, error) {
	if named := os.Getenv("PARSHALL"); named != "" {
		found, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("PARSHALL=%s is not a program that can be executed: %w", named, err)
		}
		return found, nil
	}
	found, err := unpack(carried)
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	found, err = exec.LookPath("parshall")
	if err != nil {
		return "", fmt.Errorf("there is no program `parshall`: this module was built without one for %s, and there is none on "+
			"the PATH; set PARSHALL to the path of the program", platform)
	}
	return found, nil
}

// unpack makes a file in the user's cache of what the module carries. It is named by its content, so it is written once.
func unpack(carried fs.FS) (string, error) {
	hash, err := fs.ReadFile(carried, "program/parshall-"+platform+".sha256")
	if err != nil {
		return "", err
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no folder for the program, set PARSHALL to its path: %w", err)
	}
	directory := filepath.Join(caches, "parshall", strings.TrimSpace(string(hash)))
	program := filepath.Join(directory, "parshall")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	content, err := fs.ReadFile(carried, "program/parshall-"+platform)
	if err != nil {
		return "", err
	}
	if err := write(directory, program, content); err != nil {
		return "", fmt.Errorf("the program can't be unpacked, set PARSHALL to its path: %s", err)
	}
	return program, nil
}

// write makes a file that takes its place complete, whoever else is writing it at the same time.
func write(directory, program string, content []byte) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(directory, "parshall-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(0o755), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), program)
}

const platform = runtime.GOOS + "-" + runtime.GOARCH
