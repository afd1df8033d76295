package usercode

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// module is the import path of the library's packages.
const module = "github.com/volsim/volsim"

// libraries hold no code of the user, by import path.
var libraries = []string{
	module, "k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/apimachinery", "k8s.io/apiserver", "k8s.io/client-go",
	"k8s.io/component-base", "k8s.io/component-helpers", "sigs.k8s.io/controller-runtime", "pgregory.net/rapid",
}

// Place returns the innermost call of a stack that the user's code makes, as "FILE:LINE". Files
// of the main module are named from its root. Interceptors of the user, which the API server's
// clients call, are skipped. It returns "" if there is none.
func Place(callers []uintptr) string {
	if len(callers) == 0 {
		return ""
	}
	frames := runtime.CallersFrames(callers)
	place := ""
	for {
		f, more := frames.Next()
		folder := folderOf(f.Function)
		switch {
		case !IsStandard(f.File) && !isLibrary(folder, f.File):
			if place == "" {
				place = fmt.Sprintf("%s:%d", path.Join(fromRoot(folder), path.Base(f.File)), f.Line)
			}
		case place != "" && folder != module+"/fake":
			return place
		default:
			place = "" // of an interceptor
		}
		if !more {
			return place
		}
	}
}

// folderOf returns the import path of a function's package, without the suffix of test packages.
func folderOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	return strings.TrimSuffix(function[:slash]+name, "_test")
}

// isLibrary reports whether a source file is one of the libraries.
func isLibrary(folder, file string) bool {
	if strings.HasSuffix(file, "_test.go") || within(folder, module+"/examples") || within(folder, module+"/test") {
		return false
	}
	for _, l := range libraries {
		if within(folder, l) {
			return true
		}
	}
	return false
}

func within(folder, root string) bool { return folder == root || strings.HasPrefix(folder, root+"/") }

// fromRoot returns a folder from the root of the main module.
func fromRoot(folder string) string {
	switch of := mainModule(); {
	case folder == "main" || folder == of:
		return ""
	case of != "":
		return strings.TrimPrefix(folder, of+"/")
	default:
		return folder
	}
}

// mainModule returns the path of the main module, "" if it is unknown.
var mainModule = sync.OnceValue(func() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return build.Main.Path
})

// standardFolder returns the folder of the standard library's sources, which ends in a slash. It is
// "" in a program built with -trimpath.
var standardFolder = sync.OnceValue(func() string {
	entry := reflect.ValueOf(runtime.GC).Pointer()
	file, _ := runtime.FuncForPC(entry).FileLine(entry)
	return file[:max(0, strings.LastIndex(file, "runtime/"))]
})

// IsStandard reports whether a source file belongs to the standard library. With -trimpath its name
// begins with the path of its package, as those of modules do. But only modules have a version or a
// dot in the first element, except for a main module with such a path.
func IsStandard(file string) bool {
	if folder := standardFolder(); folder != "" {
		return strings.HasPrefix(file, folder)
	}
	if of := mainModule(); of != "" && strings.HasPrefix(file, of+"/") {
		return false
	}
	first, _, _ := strings.Cut(file, "/")
	return !strings.ContainsAny(first, ".@")
}
