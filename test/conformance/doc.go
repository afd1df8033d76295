// Package conformance compares volsim with other implementations, and measures it beside them. It is a module of its own,
// so that what is heavy to build is never got with the library.
package conformance
