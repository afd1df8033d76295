package main

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// testRequirements are what the flags of a test binary require of its environment.
type testRequirements struct {
	writes  []string      // folders to write to
	timeout time.Duration // 0 if there is none
}

// outputFiles are the test flags whose value is an output file.
var outputFiles = []string{
	"blockprofile", "coverprofile", "cpuprofile", "memprofile",
	"mutexprofile", "testlogfile", "trace",
}

// outputFolders are the test flags whose value is an output folder.
var outputFolders = []string{"fuzzcachedir", "gocoverdir", "outputdir"}

// requirementsOf parses the arguments of a program as those of a test binary. Other programs have
// no requirements.
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
