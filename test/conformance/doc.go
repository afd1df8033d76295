// Package conformance compares volsim with other implementations, for results and for speed. It is
// a separate module, so that users of the library do not get its large dependencies.
package conformance
