// Package simtest is for tests that have a world decide what could have gone otherwise.
//
// [Bubble] runs a whole controller of client-go, goroutines and all, in a bubble of testing/synctest against the API
// server; [BubbleTwice] finds out whether that can be replayed.
package simtest
