package scenario

import (
	"path"
	"strings"
)

// framesMax is how many frames of a panic's stack are told.
const framesMax = 6

// frames are the first frames of a stack that are of the world's parts, or of whoever wrote them: not of Go's own
// packages, of what moves the world, or, but for the first one, of the API server. Each is a function, and the file and line
// in its package.
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

// lastPanic is the line of the first panic that was raised: what stands above it only passed it on. -1: there is none.
func lastPanic(lines []string) int {
	last := -1
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") {
			last = i
		}
	}
	return last
}

// module is where the library's packages are.
const module = "github.com/volsim/volsim/"

// isUserFrame tells whether a function is one that the reader may have written: its module has a dot in its name, or it is of a
// program, and it does not move the world.
func isUserFrame(function string) bool {
	if of, is := strings.CutPrefix(function, module); is {
		return !strings.HasPrefix(of, "sim.") && !strings.HasPrefix(of, "scenario.")
	}
	first, _, _ := strings.Cut(function, "/")
	return strings.Contains(first, ".") && strings.Contains(function, "/") && !strings.HasPrefix(first, "runtime.") ||
		strings.HasPrefix(function, "main.")
}
