package goroutine

import (
	"slices"
	"strings"
)

// HasUserFrame reports whether a stack has a function of the program's own modules, or was started by
// one. Others belong to the Go standard library, to dependencies, or to this module, except for its
// tests.
func HasUserFrame(stack string) bool {
	lines := strings.Split(stack, "\n")
	for i := 0; i+1 < len(lines); i++ {
		if file, ok := strings.CutPrefix(lines[i+1], "\t"); ok && isUser(strings.TrimPrefix(lines[i], "created by "), file) {
			return true
		}
	}
	return false
}

// module is the path of this module. Modules for tests are below it.
const module = "github.com/volsim/volsim/"

// isUser reports whether a function in a file is the user's. The files of dependencies have a version
// or are vendored.
func isUser(function, file string) bool {
	first, _, _ := strings.Cut(function, ".")
	first, _, _ = strings.Cut(first, "/")
	switch {
	case strings.Contains(file, "@v"), strings.Contains(file, "/vendor/"), slices.Contains(standard, first):
		return false
	case strings.HasPrefix(function, module):
		return strings.Contains(file, "_test.go:") || strings.HasPrefix(function, module+"test/") || strings.HasPrefix(function, module+"examples/")
	}
	return true
}

// standard are the first elements of the paths of packages in the Go standard library.
var standard = []string{
	"archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug", "embed", "encoding",
	"errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "internal", "io", "iter", "log", "maps", "math",
	"mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "slices", "sort", "strconv", "strings", "structs",
	"sync", "syscall", "testing", "text", "time", "unicode", "unique", "unsafe", "vendor", "weak",
}
