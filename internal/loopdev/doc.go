// Package loopdev binds files to loop devices of the kernel, and lists and
// unbinds what is bound. It alone talks to the kernel's loop driver, and keeps no
// state: what it reports is read from the kernel each time.
//
// On systems other than Linux nothing is ever bound.
package loopdev
