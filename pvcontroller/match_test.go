package pvcontroller

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestPoolMatchesAsUpstreamWithTiesByName adds, changes and removes volumes, and matches claims in
// between.
func TestPoolMatchesAsUpstreamWithTiesByName(t *testing.T) {
	histories := rapid.Custom(drawHistory)
	rapid.Check(t, func(t *rapid.T) {
		if err := histories.Draw(t, "history").check(newPool()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBrokenPoolsAreFound checks that the property above detects each of several defects of the
// pool.
func TestBrokenPoolsAreFound(t *testing.T) {
	for _, m := range poolMutants {
		t.Run(m.name, func(t *testing.T) {
			if n := historiesUntilFound(m); n == 0 {
				t.Errorf("%d histories passed", historiesMax)
			} else {
				t.Logf("detected in history %d", n)
			}
		})
	}
	if n := historiesUntilFound(poolMutant{}); n > 0 {
		t.Errorf("history %d fails for a correct pool", n)
	}
}

const historiesMax = 5_000

func historiesUntilFound(m poolMutant) int {
	histories := rapid.Custom(drawHistory)
	for n := 1; n <= historiesMax; n++ {
		if histories.Example(n).check(mutantPool{newPool(), m}) != nil {
			return n
		}
	}
	return 0
}

// A poolHistory is a sequence of changes of a pool.
type poolHistory []moment

// moment has one of three: a volume that is added or changed, the name of one that is removed, or a
// claim to match.
type moment struct {
	volume  *corev1.PersistentVolume
	gone    string
	claim   *corev1.PersistentVolumeClaim
	delayed bool
}

// check applies a history to a matcher and to upstream's index, and fails if they differ.
func (h poolHistory) check(m matcher) error {
	upstream := newUpstreamIndex()
	known := newVersions(
		func(v *corev1.PersistentVolume) { m.add(v); upstream.add(v) },
		func(v *corev1.PersistentVolume) { m.remove(v); upstream.remove(v) },
	)
	for i, now := range h {
		switch {
		case now.volume != nil:
			if _, err := known.put(now.volume); err != nil {
				return err
			}
		case now.claim == nil:
			known.delete(now.gone)
		default:
			if err := compareAnswers(m, upstream, now); err != nil {
				return fmt.Errorf("moment %d: %w", i, err)
			}
		}
	}
	return nil
}

func compareAnswers(m matcher, upstream *upstreamIndex, now moment) error {
	got, err := m.match(now.claim, now.delayed)
	answers, wantErr := upstream.answers(now.claim, now.delayed)
	if (err != nil) != (wantErr != nil) {
		return fmt.Errorf("error: got %v, want %v", err, wantErr)
	}
	name := ""
	if got != nil {
		name = got.Name
	}
	switch {
	case len(answers) == 0 && name == "", len(answers) > 0 && name == answers[0]:
		return nil
	case slices.Contains(answers, name):
		return fmt.Errorf("tie: got %q, want the first of %q", name, answers)
	default:
		return fmt.Errorf("match: got %q, want one of %q", name, answers)
	}
}

func drawHistory(t *rapid.T) poolHistory {
	var h poolHistory
	d := drafter{plain: rapid.Bool().Draw(t, "plain"), selectors: drawSelectors(t)}
	for i := range rapid.IntRange(1, 60).Draw(t, "moments") {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			h = append(h, moment{gone: drawName(t)})
		case 1, 2, 3:
			h = append(h, moment{claim: d.claim(t), delayed: rapid.IntRange(0, 5).Draw(t, "delayed") == 5})
		default:
			h = append(h, moment{volume: d.volume(t, fmt.Sprint(i+1))})
		}
	}
	return append(h, moment{claim: d.claim(t)})
}

// TestPostingsAreCreatedAndDropped matches with more forms of selector than a shelf has postings
// for, with each a few times, while its volumes change.
func TestPostingsAreCreatedAndDropped(t *testing.T) {
	const forms, volumes = postingsMax + 4, 50
	key := func(i int) string { return fmt.Sprint("key", i%forms) }
	var h poolHistory
	for i := range 50 * forms {
		v := freeVolume(fmt.Sprint("v", i%volumes), fmt.Sprint(i+1))
		v.Labels = map[string]string{key(i * 7): ""}
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: gib(i%7 + 1)}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
		claim.Spec.AccessModes = allModes[:1]
		claim.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: key(i / 20), Operator: metav1.LabelSelectorOpExists},
		}}
		h = append(h, moment{volume: v}, moment{claim: claim})
	}
	p := newPool()
	if err := h.check(p); err != nil {
		t.Fatal(err)
	}
	postings := p.free[shape{volumeMode: corev1.PersistentVolumeFilesystem}][modeRWO].postings
	made := 0
	for _, posting := range postings {
		if posting.tree != nil {
			made++
		}
	}
	if len(postings) != postingsMax || made < postingsMax/2 {
		t.Errorf("%d postings, %d of them built; want %d, and most built", len(postings), made, postingsMax)
	}
	for _, now := range h[len(h)-2*volumes:] {
		if now.volume != nil {
			p.remove(now.volume)
		}
	}
	if len(p.free) > 0 {
		t.Errorf("%d shapes remain after all volumes are removed", len(p.free))
	}
}

// TestReservedForListsByName lists the volumes with a claimRef to one claim, whatever its UID.
func TestReservedForListsByName(t *testing.T) {
	p := newPool()
	var volumes []*corev1.PersistentVolume
	for _, name := range []string{"b", "d", "a", "c"} {
		v := freeVolume(name, "1")
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "c"}
		volumes = append(volumes, v)
		p.add(v)
	}
	p.remove(volumes[0])
	var got []string
	for _, v := range p.reservedFor("default/c") {
		got = append(got, v.Name)
	}
	if want := []string{"a", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, v := range volumes[1:] {
		p.remove(v)
	}
	if len(p.reserved) > 0 {
		t.Errorf("%v remains after all volumes are removed", p.reserved)
	}
}

func freeVolume(name, version string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: version}}
	v.Spec.AccessModes = allModes[:1]
	v.Status.Phase = corev1.VolumeAvailable
	return v
}

// poolMutant is a pool with one defect: it sees modified volumes or claims.
type poolMutant struct {
	name   string
	volume func(*corev1.PersistentVolume)
	claim  func(*corev1.PersistentVolumeClaim)
	keeps  func(*corev1.PersistentVolume) bool // does not remove it
}

type mutantPool struct {
	*pool
	poolMutant
}

func (p mutantPool) seen(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v = v.DeepCopy()
	if p.volume != nil {
		p.volume(v)
	}
	return v
}

func (p mutantPool) add(v *corev1.PersistentVolume) { p.pool.add(p.seen(v)) }

func (p mutantPool) remove(v *corev1.PersistentVolume) {
	if p.keeps == nil || !p.keeps(v) {
		p.pool.remove(p.seen(v))
	}
}

func (p mutantPool) match(c *corev1.PersistentVolumeClaim, delayed bool) (*corev1.PersistentVolume, error) {
	c = c.DeepCopy()
	if p.poolMutant.claim != nil {
		p.poolMutant.claim(c)
	}
	return p.pool.match(c, delayed)
}

var poolMutants = []poolMutant{
	{
		name:   "phase does not count",
		volume: func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeAvailable },
	},
	{name: "deletion does not count", volume: func(v *corev1.PersistentVolume) { v.DeletionTimestamp = nil }},
	{name: "claimRef does not count", volume: func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }},
	{name: "the UID of claimRef does not count", volume: func(v *corev1.PersistentVolume) {
		if v.Spec.ClaimRef != nil {
			v.Spec.ClaimRef.UID = ""
		}
	}},
	{name: "volumes' annotations do not count", volume: func(v *corev1.PersistentVolume) { v.Annotations = nil }},
	{name: "claims' annotations do not count", claim: func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }},
	{name: "attributes class of volumes does not count", volume: func(v *corev1.PersistentVolume) {
		v.Spec.VolumeAttributesClassName = nil
	}},
	{name: "volume mode does not count", claim: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = nil }},
	{name: "ReadWriteOnce will do for ReadWriteOncePod", claim: func(c *corev1.PersistentVolumeClaim) {
		for i, mode := range c.Spec.AccessModes {
			if mode == corev1.ReadWriteOncePod {
				c.Spec.AccessModes[i] = corev1.ReadWriteOnce
			}
		}
	}},
	{name: "requests are rounded up", claim: func(c *corev1.PersistentVolumeClaim) {
		if q := requestOf(c); q.Sign() > 0 {
			q.RoundUp(0)
			c.Spec.Resources.Requests[corev1.ResourceStorage] = q
		}
	}},
	{name: "capacities are rounded up", volume: func(v *corev1.PersistentVolume) {
		if q := capacityOf(v); q.Sign() > 0 {
			q.RoundUp(0)
			v.Spec.Capacity[corev1.ResourceStorage] = q
		}
	}},
	{name: "NotIn does not count", claim: withoutOperator(metav1.LabelSelectorOpNotIn)},
	{name: "In does not count", claim: withoutOperator(metav1.LabelSelectorOpIn)},
	{name: "Exists does not count", claim: withoutOperator(metav1.LabelSelectorOpExists)},
	{name: "DoesNotExist does not count", claim: withoutOperator(metav1.LabelSelectorOpDoesNotExist)},
	{name: "matchLabels do not count", claim: func(c *corev1.PersistentVolumeClaim) {
		if c.Spec.Selector != nil {
			c.Spec.Selector.MatchLabels = nil
		}
	}},
	{name: "In takes the first value only", claim: func(c *corev1.PersistentVolumeClaim) {
		if c.Spec.Selector != nil {
			for i, e := range c.Spec.Selector.MatchExpressions {
				c.Spec.Selector.MatchExpressions[i].Values = e.Values[:min(1, len(e.Values))]
			}
		}
	}},
	{name: "values of one place are one", volume: func(v *corev1.PersistentVolume) {
		if v.Labels["bar"] == samePlace[1] {
			v.Labels["bar"] = samePlace[0]
		}
	}},
	{
		name:  "free volumes with a label stay",
		keeps: func(v *corev1.PersistentVolume) bool { return v.Labels["foo"] == "a" && isFree(v) },
	},
	{name: "reservations stay", keeps: func(v *corev1.PersistentVolume) bool { return v.Spec.ClaimRef != nil }},
}

// withoutOperator removes the requirements with an operator.
func withoutOperator(op metav1.LabelSelectorOperator) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		if c.Spec.Selector == nil {
			return
		}
		c.Spec.Selector.MatchExpressions = slices.DeleteFunc(c.Spec.Selector.MatchExpressions,
			func(e metav1.LabelSelectorRequirement) bool { return e.Operator == op })
	}
}

var allModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod,
}

// samePlace are two values that queries for the first key of a form map to the same place.
var samePlace = [2]string{"8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"}
