// Package goroutine identifies goroutines and finds what started them.
//
//	if goroutine.ID() != owner {
//		origin, ok := goroutine.OriginOf(goroutine.Stack())
//	}
//
// [ID] costs about a nanosecond. Everything else reads stack traces, which costs microseconds.
package goroutine
