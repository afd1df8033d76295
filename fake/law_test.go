package fake_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
)

// The list at r plus the watch from r gives the list at r', for all r and r', with and without a
// selector. In a log, revisions rise, a key is added only if it did not exist, and an event has the
// previous state. The writes are drawn.
func TestListAndWatchGiveAnyLaterList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, c := newServer(t)
		ctx := t.Context()
		claims := c.CoreV1().PersistentVolumeClaims("default")
		var commits []fake.Commit
		s.OnCommit(func(c fake.Commit) {
			if c.Resource == "persistentvolumeclaims" {
				commits = append(commits, c)
			}
		})
		for range rapid.IntRange(1, 25).Draw(rt, "writes") {
			write(rt, ctx, c)
		}
		checkLog(rt, commits)
		for _, sel := range []string{"", "n=1"} {
			first, last := int64(4), s.Revision()
			at := make([]map[string]string, last+1)
			for r := first; r <= last; r++ {
				at[r] = listAt(rt, ctx, claims.List, r, sel)
			}
			for r := first; r <= last; r++ {
				state := listAt(rt, ctx, claims.List, r, sel)
				stream, err := claims.Watch(ctx, metav1.ListOptions{
					ResourceVersion: strconv.FormatInt(r, 10),
					LabelSelector:   sel,
				})
				if err != nil {
					rt.Fatal(err)
				}
				follow(rt, stream, state, at, r)
				stream.Stop()
			}
		}
	})
}

// write makes one write, which may be rejected.
func write(rt *rapid.T, ctx context.Context, c *fake.Clientset) {
	claims := c.CoreV1().PersistentVolumeClaims("default")
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
	n := rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "n")
	switch rapid.SampledFrom([]string{"create", "label", "status", "delete", "release"}).Draw(rt, "write") {
	case "create":
		_, _ = claims.Create(ctx, newClaim(name, label("n", n)), metav1.CreateOptions{})
	case "label":
		_, _ = claims.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"n":%q}}}`, n),
			metav1.PatchOptions{})
	case "status":
		patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, map[string]string{"1": "Bound", "2": "Lost"}[n])
		_, _ = claims.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	case "delete":
		_ = claims.Delete(ctx, name, metav1.DeleteOptions{})
	case "release":
		_, _ = claims.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
	}
}

func checkLog(rt *rapid.T, commits []fake.Commit) {
	state := map[string]fake.Object{}
	var last int64
	for _, c := range commits {
		if c.Revision <= last {
			rt.Fatalf("revision %d after %d", c.Revision, last)
		}
		last = c.Revision
		if got := c.After.GetResourceVersion(); got != strconv.FormatInt(last, 10) {
			rt.Fatalf("commit %d carries resourceVersion %s", last, got)
		}
		name := c.After.GetName()
		if before, ok := state[name]; ok != (c.Type != watch.Added) || ok && before != c.Before {
			rt.Fatalf("commit %d: %s of %s, which was %v", last, c.Type, name, before)
		}
		if c.Type == watch.Deleted {
			delete(state, name)
		} else {
			state[name] = c.After
		}
	}
}

type lister func(context.Context, metav1.ListOptions) (*corev1.PersistentVolumeClaimList, error)

// listAt lists at a revision, and returns resourceVersions by name.
func listAt(rt *rapid.T, ctx context.Context, list lister, revision int64, sel string) map[string]string {
	all, err := list(ctx, metav1.ListOptions{
		ResourceVersion: strconv.FormatInt(revision,
			10), ResourceVersionMatch: metav1.ResourceVersionMatchExact, LabelSelector: sel,
	})
	if err != nil {
		rt.Fatal(err)
	}
	state := map[string]string{}
	for _, c := range all.Items {
		state[c.Name] = c.ResourceVersion
	}
	return state
}

// follow applies a watch to state, which is at[from], and compares it with at[r] for each revision
// r.
func follow(rt *rapid.T, stream watch.Interface, state map[string]string, at []map[string]string, from int64) {
	for r := from + 1; r < int64(len(at)); r++ {
		if fmt.Sprint(at[r]) == fmt.Sprint(at[r-1]) {
			continue // nothing was selected
		}
		e := <-stream.ResultChan()
		m, ok := e.Object.(metav1.Object)
		if !ok || m.GetResourceVersion() != strconv.FormatInt(r, 10) {
			rt.Fatalf("watch from %d: want an event of revision %d, got %s %v", from, r, e.Type, e.Object)
		}
		_, had := state[m.GetName()]
		if had != (e.Type != watch.Added) {
			rt.Fatalf("watch from %d: revision %d: %s of %s, existed: %v", from, r, e.Type, m.GetName(), had)
		}
		if e.Type == watch.Deleted {
			delete(state, m.GetName())
		} else {
			state[m.GetName()] = m.GetResourceVersion()
		}
		if fmt.Sprint(state) != fmt.Sprint(at[r]) {
			rt.Fatalf("watch from %d: at revision %d: got %v, want %v", from, r, state, at[r])
		}
	}
}
