package volumebinding

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/informercache"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// An item is an object of a test. It has a version and a text that says which one it is.
type item struct {
	metav1.ObjectMeta
	text string
}

func newItem(name, version, text string) *item {
	return &item{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: version}, text: text}
}

func newTestCache(t *testing.T, items ...*item) *assumeCache[*item] {
	t.Helper()
	c := newAssumeCache[*item](informercache.New("items").GetIndexer(), "items")
	for _, i := range items {
		see(t, c, i)
	}
	return c
}

// see puts a version into the informer's cache, and calls the handler.
func see(t *testing.T, c *assumeCache[*item], i *item) {
	t.Helper()
	if err := c.store.Update(i); err != nil {
		t.Fatal(err)
	}
	c.expire(keyOf(i))
}

func wantItem(t *testing.T, c *assumeCache[*item], want *item) {
	t.Helper()
	if got, err := c.get(keyOf(want)); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestBasicCache(t *testing.T) {
	c := newTestCache(t)
	if got, err := c.get("nothere"); got != nil || err == nil {
		t.Errorf("a missing object: %v, %v", got, err)
	}
	for i := range 10 {
		see(t, c, newItem(fmt.Sprint(i), "1", "first"))
	}
	later := newItem("3", "2", "later")
	see(t, c, later)
	wantItem(t, c, later)
	if err := c.store.Delete(newItem("7", "1", "")); err != nil {
		t.Fatal(err)
	}
	c.expire("ns/7")
	if got, err := c.get("ns/7"); got != nil || err == nil {
		t.Errorf("a deleted object: %v, %v", got, err)
	}
}

// An index returns the versions that are assumed.
func TestAssumedVolumesByClaim(t *testing.T) {
	w := newRig(t, Args{})
	w.cached(volume("b", "n1", "1G", waits), volume("a", "n1", "1G", waits), volume("c", "n1", "1G", immediate))
	mine, other := claim("mine", "1G", waits), claim("other", "1G", waits)
	w.cached(volume("d", "n1", "1G", waits, of(mine)), volume("e", "n1", "1G", waits, of(other)))
	assumed := volume("a", "n1", "1G", waits, of(other))
	w.NoError(w.plugin.volumes.assume(assumed))
	var names []string
	for _, v := range w.plugin.volumesFor(mine) {
		names = append(names, v.Name)
		if v.Name == "a" && v != assumed {
			t.Error("a is not the assumed version")
		}
	}
	if !slices.Equal(names, []string{"a", "b", "d"}) {
		t.Errorf("volumes of the class without a claim, or of mine: %v", names)
	}
}

func TestAssume(t *testing.T) {
	for name, test := range map[string]struct {
		old, new string // versions
		newName  string
		ok       bool
	}{
		"success-same-version":    {"5", "5", "x", true},
		"fail-new-higher-version": {"5", "6", "x", false},
		"fail-old-not-found":      {"5", "5", "y", false},
		"fail-new-lower-version":  {"5", "4", "x", false},
		"fail-new-bad-version":    {"5", "a", "x", false},
		"fail-old-bad-version":    {"a", "5", "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			old, changed := newItem("x", test.old, "old"), newItem(test.newName, test.new, "new")
			c := newTestCache(t, old)
			if err := c.assume(changed); (err == nil) != test.ok {
				t.Errorf("assume: %v", err)
			}
			if test.ok {
				old = changed
			}
			wantItem(t, c, old)
		})
	}
}

func TestAssumeOutOfSync(t *testing.T) {
	c := newTestCache(t, newItem("x", "5", ""))
	if err := c.assume(newItem("x", "4", "")); err == nil || err.Error() != `"ns/x" is out of sync (stored: 5, assume: 4)` {
		t.Error(err)
	}
	if err := c.assume(newItem("y", "4", "")); err == nil || err.Error() != `items "ns/y" not found` {
		t.Error(err)
	}
}

func TestRestore(t *testing.T) {
	old, changed := newItem("x", "5", "old"), newItem("x", "5", "new")
	c := newTestCache(t)
	c.restore(newItem("", "", ""))
	see(t, c, old)
	c.restore(old)
	wantItem(t, c, old)
	if err := c.assume(changed); err != nil {
		t.Fatal(err)
	}
	wantItem(t, c, changed)
	c.restore(changed)
	wantItem(t, c, old)
}

// What is assumed of a later version stays when an earlier one is given back.
func TestConcurrentAssume(t *testing.T) {
	first, later := newItem("x", "5", "first"), newItem("x", "7", "later")
	c := newTestCache(t, newItem("x", "5", ""))
	if err := c.assume(first); err != nil {
		t.Fatal(err)
	}
	see(t, c, newItem("x", "7", ""))
	if err := c.assume(later); err != nil {
		t.Fatal(err)
	}
	c.restore(first)
	wantItem(t, c, later)
}

// A version that is seen again ends nothing.
func TestAssumeUpdateCache(t *testing.T) {
	old, changed := newItem("x", "1", "old"), newItem("x", "1", "new")
	c := newTestCache(t, old)
	if err := c.assume(changed); err != nil {
		t.Fatal(err)
	}
	see(t, c, old)
	wantItem(t, c, changed)
}

// A handler that runs after the cache has moved on ends nothing.
func TestDelayedInformerEvent(t *testing.T) {
	c := newTestCache(t)
	if err := c.store.Add(newItem("x", "2", "")); err != nil {
		t.Fatal(err)
	}
	changed := newItem("x", "2", "new")
	if err := c.assume(changed); err != nil {
		t.Fatal(err)
	}
	c.expire("ns/x")
	wantItem(t, c, changed)
}

// A written version is used until the cache has it, whatever is assumed on top of it and given back.
func TestWritten(t *testing.T) {
	stale, written, more := newItem("x", "5", "stale"), newItem("x", "7", "written"), newItem("x", "7", "more")
	c := newTestCache(t, stale)
	if err := c.assume(newItem("x", "5", "assumed")); err != nil {
		t.Fatal(err)
	}
	c.wrote(written)
	wantItem(t, c, written)
	if err := c.assume(newItem("x", "5", "assumed")); err == nil {
		t.Error("a version was assumed that is older than the written one")
	}
	if err := c.assume(more); err != nil {
		t.Fatal(err)
	}
	wantItem(t, c, more)
	c.restore(more)
	wantItem(t, c, written)
	see(t, c, newItem("x", "6", "in between"))
	wantItem(t, c, written)
	if got, err := c.api("ns/x"); err != nil || got.text != "in between" {
		t.Errorf("the cache has %v, %v", got, err)
	}
	last := newItem("x", "9", "last")
	see(t, c, last)
	wantItem(t, c, last)
	c.wrote(written) // the answer came after the event
	wantItem(t, c, last)
	if len(c.assumed)+len(c.written) != 0 {
		t.Errorf("left: %v, %v", c.assumed, c.written)
	}
}

// A version of an object that was deleted, and whose name another has, is not used.
func TestWrittenVersionOfAnotherObject(t *testing.T) {
	c := newTestCache(t, newItem("x", "5", ""))
	c.wrote(newItem("x", "7", "written"))
	another := newItem("x", "6", "another")
	another.UID = "another"
	see(t, c, another)
	wantItem(t, c, another)
	if err := c.store.Delete(another); err != nil {
		t.Fatal(err)
	}
	c.wrote(newItem("x", "7", "written"))
	if len(c.written) != 0 {
		t.Errorf("left: %v", c.written)
	}
}

// Two plugins, of two profiles, share the indices of the caches.
func TestTwoPlugins(t *testing.T) {
	w := newRig(t, Args{})
	other := New(framework.Handle{Process: w.plugin.process, Client: w.User, Informers: w.caches}, Args{})
	w.cached(volume("v", "n1", "1G", waits))
	for _, p := range []*Plugin{w.plugin, other} {
		if volumes := p.volumesFor(claim("c", "1G", waits)); len(volumes) != 1 {
			t.Errorf("volumes: %v", volumes)
		}
	}
}
