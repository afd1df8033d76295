package scenario

import (
	"path"
	"strings"
)

// framesMax is the maximum number of stack frames that a story shows.
const framesMax = 6

// frames returns the first frames of a stack that belong to components of the world or to code of
// the user. It leaves out the Go standard library, the simulator and, except for the first frame,
// the API server. Each frame is a function and the base name and line of its file.
func frames(stack string) []string {
	lines := strings.Split(stack, "\n")
	if i := lastPanic(lines); i >= 0 {
		lines = lines[i:]
	}
	var frames []string
	for i := 0; i+1 < len(lines) && len(frames) < framesMax; i++ {
		file, at := strings.CutPrefix(lines[i+1], "\t")
		if !at || !isUserFrame(lines[i]) || len(frames) > 0 && strings.HasPrefix(lines[i], module+"fake") {
			continue
		}
		function := lines[i]
		if open := strings.LastIndex(function, "("); open > 0 {
			function = function[:open]
		}
		file, _, _ = strings.Cut(file, " +0x")
		frames = append(frames, strings.TrimPrefix(function, module)+" ("+path.Base(file)+")")
	}
	return frames
}

// lastPanic returns the index of the first panic that was raised, -1 if there is none. The lines
// above it only re-raised it.
func lastPanic(lines []string) int {
	last := -1
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") {
			last = i
		}
	}
	return last
}

// module is the import path of the library's packages.
const module = "github.com/volsim/volsim/"

// isUserFrame reports whether the reader may have written a function: the path of its module
// contains a dot, or it belongs to a program, and it is not part of the simulator.
func isUserFrame(function string) bool {
	if of, is := strings.CutPrefix(function, module); is {
		return !strings.HasPrefix(of, "sim.") && !strings.HasPrefix(of, "scenario.")
	}
	first, _, _ := strings.Cut(function, "/")
	return strings.Contains(first, ".") && strings.Contains(function, "/") && !strings.HasPrefix(first, "runtime.") ||
		strings.HasPrefix(function, "main.")
}
