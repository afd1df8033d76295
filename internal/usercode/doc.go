// Package usercode finds the code of this module's user in call stacks.
//
//	var callers [64]uintptr
//	n := runtime.Callers(1, callers[:])
//	fmt.Println(usercode.Place(callers[:n])) // controller/widget.go:57
//
// The user's code is what neither this module, nor the libraries of Kubernetes, nor the Go standard
// library contains. Tests, examples and the test modules of this repository count as the user's.
package usercode
