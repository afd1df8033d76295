package main

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// testRequirements is what the flags of a test binary ask of the place where it runs.
type testRequirements struct {
	writes  []string      // folders
	timeout time.Duration // 0 is none
}

// outputFiles are a test binary's flags whose value is a file that it writes.
var outputFiles = []string{"blockprofile", "coverprofile", "cpuprofile", "memprofile", "mutexprofile", "testlogfile", "trace"}

// outputFolders are those whose value is a folder.
var outputFolders = []string{"fuzzcachedir", "gocoverdir", "outputdir"}

// requirementsOf reads the arguments of a program as those of a test binary. Those of another program ask for nothing.
func requirementsOf(args []string) testRequirements {
	var a testRequirements
	values := map[string]string{}
	for _, arg := range args {
		name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		name, isTest := strings.CutPrefix(name, "test.")
		if ok && isTest && value != "" {
			values[name] = value
		}
	}
	for _, name := range outputFiles {
		if file, ok := values[name]; ok {
			if !filepath.IsAbs(file) && name != "testlogfile" {
				file = filepath.Join(values["outputdir"], file)
			}
			a.writes = append(a.writes, filepath.Dir(file))
		}
	}
	for _, name := range outputFolders {
		if folder, ok := values[name]; ok {
			a.writes = append(a.writes, folder)
		}
	}
	slices.Sort(a.writes)
	a.writes = slices.Compact(a.writes)
	if d, err := time.ParseDuration(values["timeout"]); err == nil {
		a.timeout = d
	}
	return a
}
