package simtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A rapidTB is a test that reports to the user for rapid. It keeps failures in one place: rapid
// writes its draws to a file in testdata/rapid, which is removed, as the failure is saved as a
// scenario. rapid's flag against that file concerns all tests of the program.
type rapidTB struct{ testing.TB }

// freshFile matches rapid's name of the file that it wrote, and the seed of its draws. For a file
// that existed before, rapid names no seed.
var freshFile = regexp.MustCompile(`-rapid\.failfile=("(?:[^"\\]|\\.)*") \(or (-rapid\.seed=\d+)\)`)

// Errorf reports a failure without rapid's file.
func (t rapidTB) Errorf(format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	if m := freshFile.FindStringSubmatch(text); m != nil {
		if path, err := strconv.Unquote(m[1]); err == nil {
			removeFile(path)
		}
		text = strings.Replace(text, m[0], m[2], 1)
	}
	t.TB.Errorf("%s", text)
}

// removeFile removes a file and the two directories that contain it, if they are then empty.
func removeFile(path string) {
	for range 3 {
		if os.Remove(path) != nil {
			return
		}
		path = filepath.Dir(path)
	}
}

// deadlineReserve is the time before the deadline of a test in which nothing is searched.
const deadlineReserve = 10 * time.Second

// untilDeadline returns a context that ends shortly before the test does, so that it can report.
// rapid takes care of the deadline of a *testing.T only.
func untilDeadline(t testing.TB) (context.Context, context.CancelFunc) {
	if d, has := t.(interface{ Deadline() (time.Time, bool) }); has {
		if deadline, ok := d.Deadline(); ok {
			return context.WithDeadline(t.Context(), deadline.Add(-deadlineReserve))
		}
	}
	return context.WithCancel(t.Context())
}
