package simtest

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/clock"
)

// errorPause is how long a reported error delays its goroutine.
const errorPause = time.Millisecond

// init replaces the limit on reported errors of client-go. That one remembers when the last error was
// reported, in the whole program. The clock of a bubble starts in 2000, so an informer whose list
// fails in a bubble would sleep until the time of an error outside it, or in an earlier bubble.
//
// Upstream: k8s.io/apimachinery/pkg/util/runtime, ErrorHandlers (v0.36).
// Differs: it delays each error by a millisecond, not only those that follow another one within it.
func init() {
	for i, handler := range utilruntime.ErrorHandlers {
		if strings.Contains(runtime.FuncForPC(reflect.ValueOf(handler).Pointer()).Name(), ".backoffError") {
			utilruntime.ErrorHandlers[i] = func(context.Context, error, string, ...any) { clock.RealClock{}.Sleep(errorPause) }
		}
	}
}
