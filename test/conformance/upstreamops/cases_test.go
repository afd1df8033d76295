package upstreamops_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/util/goroutinemap/exponentialbackoff"
	"k8s.io/kubernetes/pkg/volume/util/nestedpendingoperations"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"
	"pgregory.net/rapid"
)

// cases is the folder of the executor's histories.
var cases = filepath.Join("..", "..", "..", "executor", "testdata", "cases")

// TestMain discards upstream's log output.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // one of them sleeps until a time of another bubble
	os.Exit(m.Run())
}

// TestUpstreamInTheSameHistories runs each of the executor's histories on upstream's executor,
// without the steps for volsim only.
func TestUpstreamInTheSameHistories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(cases, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("cases: %v, %v", files, err)
	}
	differ := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range strings.Split("\n"+string(text), "\n=== ")[1:] {
			id, steps, _ := strings.Cut(c, "\n")
			if strings.Contains(steps, "\nupstream ") {
				differ++
			}
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { newHistory().happens(t, steps) })
			})
		}
	}
	if differ < 5 {
		t.Errorf("%d histories with a different upstream result, want at least 5", differ)
	}
}

// A history is a history of upstream's executor.
type history struct {
	operations nestedpendingoperations.NestedPendingOperations
	running    map[string]chan error
	keys       map[key]bool // of started operations
	waiting    bool         // a goroutine waits for all operations
}

type key struct {
	volume corev1.UniqueVolumeName
	pod    volumetypes.UniquePodName
	node   types.NodeName
}

func newHistory() *history {
	return &history{
		operations: nestedpendingoperations.NewNestedPendingOperations(true),
		running:    map[string]chan error{}, keys: map[key]bool{},
	}
}

func (h *history) happens(t *testing.T, steps string) {
	t.Helper()
	defer h.clear()
	for line := range strings.Lines(steps) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "ours ") {
			continue
		}
		what, want, _ := strings.Cut(strings.TrimPrefix(line, "upstream "), " -> ")
		if got := h.step(t, strings.Fields(what)); got != want {
			t.Fatalf("%s -> %s", line, got)
		}
	}
}

var errBroken, errPanic = errors.New("broken"), errors.New("panic")

// step executes a line and returns its result.
func (h *history) step(t *testing.T, words []string) string {
	t.Helper()
	switch verb, args := words[0], words[1:]; verb {
	case "start":
		ends := make(chan error)
		err := h.start(keyOf(t, args[2:]), args[1], ends)
		if err == nil {
			h.running[args[0]] = ends
		}
		return said(t, err)
	case "end":
		h.end(args[0], nil)
	case "fail":
		h.end(args[0], errBroken)
	case "panic":
		h.end(args[0], errPanic)
	case "check":
		k := keyOf(t, args[1:])
		return map[bool]string{true: "ok", false: "not now"}[h.operations.IsOperationSafeToRetry(k.volume, k.pod, k.node, args[0])]
	case "busy":
		k := keyOf(t, args)
		return map[bool]string{true: "yes", false: "no"}[h.operations.IsOperationPending(k.volume, k.pod, k.node)]
	case "pass":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(d)
	case "wait":
		return h.wait()
	default:
		t.Fatalf("unknown word: %s", strings.Join(words, " "))
	}
	return ""
}

// start starts an operation that lasts until something is sent to ends.
func (h *history) start(k key, name string, ends <-chan error) error {
	h.keys[k] = true
	err := h.operations.Run(k.volume, k.pod, k.node, volumetypes.GeneratedOperations{
		OperationName: name,
		OperationFunc: func() volumetypes.OperationContext {
			err := <-ends
			if errors.Is(err, errPanic) {
				panic(err)
			}
			return volumetypes.NewOperationContext(err, err, false)
		},
	})
	synctest.Wait()
	return err
}

func (h *history) end(id string, err error) {
	h.running[id] <- err
	delete(h.running, id)
	synctest.Wait()
}

// wait returns whether waiting for all operations ends or hangs. A hanging goroutine keeps waiting.
func (h *history) wait() string {
	done := make(chan struct{})
	go func() {
		h.operations.Wait()
		close(done)
	}()
	synctest.Wait()
	select {
	case <-done:
		return "ends"
	default:
		h.waiting = true
		return "hangs"
	}
}

// clear ends running operations and completes one operation per key, so that no goroutine waits any
// longer.
func (h *history) clear() {
	for id := range h.running {
		h.end(id, nil)
	}
	for range len(h.keys) {
		for k := range h.keys {
			succeeds := make(chan error, 1)
			succeeds <- nil
			_ = h.start(k, "clear", succeeds)
		}
	}
}

var until = regexp.MustCompile(`No retries permitted until (.*? UTC)`)

// said returns a result as text.
func said(t rapid.TB, err error) string {
	t.Helper()
	switch {
	case err == nil:
		return "ok"
	case nestedpendingoperations.IsAlreadyExists(err):
		return "pending"
	case !exponentialbackoff.IsExponentialBackoff(err):
		return err.Error()
	}
	found := until.FindStringSubmatch(err.Error())
	if found == nil {
		t.Fatalf("no end of the back-off in %v", err)
	}
	at, parseErr := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", found[1])
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	return "back-off " + time.Until(at).String()
}

func keyOf(t *testing.T, words []string) key {
	t.Helper()
	if words[0] == "none" {
		return key{}
	}
	k := key{volume: corev1.UniqueVolumeName(words[0])}
	for _, word := range words[1:] {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "pod":
			k.pod = volumetypes.UniquePodName(value)
		case "node":
			k.node = types.NodeName(value)
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	return k
}
