package informercache

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// byLabels is an index by the values of all labels.
func byLabels(obj any) ([]string, error) {
	return slices.Sorted(maps.Values(obj.(*corev1.Pod).Labels)), nil
}

// indexerAnswers returns all answers of an indexer, sorted.
func indexerAnswers(t *rapid.T, x cache.Indexer) map[string][]string {
	keysOf := func(objects []any, err error) []string {
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, obj := range objects {
			keys = append(keys, keyOf(obj)+" "+obj.(*corev1.Pod).ResourceVersion)
		}
		return slices.Sorted(slices.Values(keys))
	}
	answers := map[string][]string{
		"list": keysOf(x.List(), nil), "keys": slices.Sorted(slices.Values(x.ListKeys())),
		"indexers": slices.Sorted(maps.Keys(x.GetIndexers())),
	}
	for _, name := range []string{cache.NamespaceIndex, "labels"} {
		answers[name] = slices.Sorted(slices.Values(x.ListIndexFuncValues(name)))
		for _, value := range []string{"", "a", "b", "a/b"} {
			answers[name+"="+value] = keysOf(x.ByIndex(name, value))
			keys, err := x.IndexKeys(name, value)
			if err != nil {
				t.Fatal(err)
			}
			answers[name+" keys="+value] = slices.Sorted(slices.Values(keys))
		}
		for _, obj := range x.List() {
			answers[name+" of "+keyOf(obj)] = keysOf(x.Index(name, obj))
		}
	}
	return answers
}

// The indexer answers like client-go's, but in order.
func TestIndexerAgreesWithClientGo(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c"})
	pod := rapid.Custom(func(t *rapid.T) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: rapid.SampledFrom([]string{"", "a", "b", "ab"}).Draw(t, "namespace"), Name: word.Draw(t, "name"),
			ResourceVersion: rapid.StringMatching(`[1-9][0-9]?`).Draw(t, "revision"),
			Labels:          rapid.MapOfN(word, word, 0, 2).Draw(t, "labels"),
		}}
	})
	rapid.Check(t, func(t *rapid.T) {
		ours, theirs := &indexer{}, cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		})
		both := func(do func(x cache.Indexer) error) {
			for _, x := range []cache.Indexer{ours, theirs} {
				if err := do(x); err != nil {
					t.Fatal(err)
				}
			}
		}
		add := func(x cache.Indexer) error { return x.AddIndexers(cache.Indexers{"labels": byLabels}) }
		early := rapid.Bool().Draw(t, "index before objects")
		if early {
			both(add)
		}
		for range rapid.IntRange(0, 8).Draw(t, "changes") {
			obj := pod.Draw(t, "pod")
			switch rapid.SampledFrom([]string{"add", "update", "delete", "replace"}).Draw(t, "change") {
			case "add":
				both(func(x cache.Indexer) error { return x.Add(obj) })
			case "update":
				both(func(x cache.Indexer) error { return x.Update(obj) })
			case "delete":
				both(func(x cache.Indexer) error { return x.Delete(obj) })
			case "replace":
				all := rapid.SliceOfNDistinct(pod, 0, 4, func(p *corev1.Pod) string { return keyOf(p) }).Draw(t, "all")
				both(func(x cache.Indexer) error {
					var objects []any
					for _, p := range all {
						objects = append(objects, p)
					}
					return x.Replace(objects, "100")
				})
			}
		}
		if !early {
			both(add)
		}
		revised, ok := theirs.(interface{ LastStoreSyncResourceVersion() string }) // since client-go 0.36
		if got := ours.LastStoreSyncResourceVersion(); ok && got != revised.LastStoreSyncResourceVersion() {
			t.Errorf("revision %s, want %s", got, revised.LastStoreSyncResourceVersion())
		}
		if diff := cmp.Diff(indexerAnswers(t, theirs), indexerAnswers(t, ours)); diff != "" {
			t.Fatalf("(-client-go's +ours)\n%s", diff)
		}
		if keys := ours.ListKeys(); !slices.IsSorted(keys) {
			t.Errorf("keys %v are in no order", keys)
		}
	})
}

func TestIndexerErrors(t *testing.T) {
	x := &indexer{}
	if err := x.AddIndexers(cache.Indexers{"labels": byLabels}); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"a second index of a name": func() error { return x.AddIndexers(cache.Indexers{"labels": byLabels}) },
		"an index of namespaces":   func() error { return x.AddIndexers(cache.Indexers{cache.NamespaceIndex: byLabels}) },
		"an index that is not there": func() error {
			_, err := x.ByIndex("none", "a")
			return err
		},
		"an object without metadata": func() error { return x.Add(7) },
	} {
		if err := do(); err == nil {
			t.Errorf("%s was no error", what)
		}
	}
	if _, err := x.Index("none", &corev1.Pod{}); err == nil || !strings.Contains(err.Error(), "Index with name none") {
		t.Errorf("got %v", err)
	}
}
