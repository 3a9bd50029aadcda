package parshalltest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheProgramIsTheOneThatIsNamedThenTheCarriedOneThenThatOnThePath(t *testing.T) {
	directory := t.TempDir()
	other := filepath.Join(directory, "parshall")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(directory, "cache"))
	t.Setenv("PATH", "")
	t.Setenv("PARSHALL", "")
	nothing := fstest.MapFS{}
	carried := fstest.MapFS{
		"program/parshall-" + platform:             {Data: []byte("#!/bin/sh\n")},
		"program/parshall-" + platform + ".sha256": {Data: []byte("abc\n")},
	}
	expect := func(expected string) func(string, error) {
		return func(program string, err error) {
			t.Helper()
			if err != nil || program != expected {
				t.Errorf("%q instead of %q: %v", program, expected, err)
			}
		}
	}
	if _, err := findProgram(nothing); err == nil || !strings.Contains(err.Error(), "set PARSHALL to the path") {
		t.Error(err)
	}
	t.Setenv("PATH", directory)
	expect(other)(findProgram(nothing))
	unpacked := filepath.Join(directory, "cache", "parshall", "abc", "parshall")
	expect(unpacked)(findProgram(carried))
	expect(unpacked)(findProgram(carried))
	if status, err := os.Stat(unpacked); err != nil || status.Mode().Perm() != 0o755 {
		t.Error(status, err)
	}
	t.Setenv("PARSHALL", other)
	expect(other)(findProgram(carried))
	t.Setenv("PARSHALL", filepath.Join(directory, "missing"))
	if _, err := findProgram(carried); err == nil || !strings.Contains(err.Error(), "is not a program") {
		t.Error(err)
	}
}
