package snapshotter

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// ofVolume returns the content of a snapshot of a volume.
func ofVolume(changes ...func(c *snapshotapi.VolumeSnapshotContent)) *snapshotapi.VolumeSnapshotContent {
	c := &snapshotapi.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1", Annotations: map[string]string{}}}
	c.Spec.Source.VolumeHandle, c.Spec.VolumeSnapshotRef.UID = ptr.To("v"), "u"
	for _, change := range changes {
		change(c)
	}
	return c
}

func annotation(key, value string) func(c *snapshotapi.VolumeSnapshotContent) {
	return func(c *snapshotapi.VolumeSnapshotContent) { c.Annotations[key] = value }
}

func deleting(c *snapshotapi.VolumeSnapshotContent) { c.DeletionTimestamp = &metav1.Time{} }

func withStatus(s snapshotapi.ContentStatus) func(c *snapshotapi.VolumeSnapshotContent) {
	return func(c *snapshotapi.VolumeSnapshotContent) { c.Status = &s }
}

func handle(c *snapshotapi.VolumeSnapshotContent) {
	c.Spec.Source = snapshotapi.ContentSource{SnapshotHandle: ptr.To("h")}
}

func unbound(c *snapshotapi.VolumeSnapshotContent) { c.Spec.VolumeSnapshotRef.UID = "" }

func TestDecide(t *testing.T) {
	created, deleted := annotation(snapshotapi.BeingCreated, "yes"), annotation(snapshotapi.BeingDeleted, "yes")
	ready := withStatus(snapshotapi.ContentStatus{ReadyToUse: ptr.To(true)})
	for name, test := range map[string]struct {
		content *snapshotapi.VolumeSnapshotContent
		want    action
	}{
		"new":                              {ofVolume(), create},
		"failed":                           {ofVolume(withStatus(snapshotapi.ContentStatus{})), retry},
		"ready":                            {ofVolume(ready), idle},
		"ready and annotated":              {ofVolume(ready, created), unmark},
		"existing":                         {ofVolume(handle), list},
		"existing, ready":                  {ofVolume(handle, ready), idle},
		"deleted":                          {ofVolume(deleting), create},
		"deleted by agreement":             {ofVolume(deleting, deleted), remove},
		"agreed, not deleted":              {ofVolume(deleted, ready), idle},
		"deleted while created":            {ofVolume(deleting, deleted, created), create},
		"deleted while created, ready":     {ofVolume(deleting, deleted, created, ready), unmark},
		"deleted while unbound":            {ofVolume(deleting, handle, unbound), remove},
		"deleted while unbound, of volume": {ofVolume(deleting, unbound), create},
	} {
		if got := decide(test.content); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestDecideGroup(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *snapshotapi.VolumeGroupSnapshotContent)
		want   action
	}{
		"new":    {func(*snapshotapi.VolumeGroupSnapshotContent) {}, create},
		"failed": {func(c *snapshotapi.VolumeGroupSnapshotContent) { c.Status = &snapshotapi.GroupContentStatus{} }, retry},
		"not bound": {func(c *snapshotapi.VolumeGroupSnapshotContent) {
			c.Spec.Source = snapshotapi.GroupContentSource{GroupSnapshotHandles: &snapshotapi.GroupSnapshotHandles{}}
			c.Spec.VolumeGroupSnapshotRef.UID, c.DeletionTimestamp = "", &metav1.Time{}
		}, remove},
		"deleted": {func(c *snapshotapi.VolumeGroupSnapshotContent) { c.DeletionTimestamp = &metav1.Time{} }, create},
		"deleted while created": {func(c *snapshotapi.VolumeGroupSnapshotContent) {
			c.DeletionTimestamp = &metav1.Time{}
			c.Annotations = map[string]string{snapshotapi.GroupBeingCreated: "yes", snapshotapi.GroupBeingDeleted: "yes"}
		}, create},
		"deleted by agreement": {func(c *snapshotapi.VolumeGroupSnapshotContent) {
			c.DeletionTimestamp, c.Annotations = &metav1.Time{}, map[string]string{snapshotapi.GroupBeingDeleted: "yes"}
		}, remove},
	} {
		c := &snapshotapi.VolumeGroupSnapshotContent{}
		c.Spec.Source.VolumeHandles, c.Spec.VolumeGroupSnapshotRef.UID = []string{"v"}, "u"
		test.change(c)
		if got := decideGroup(c); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestNeedsSync(t *testing.T) {
	message := func(text string) func(c *snapshotapi.VolumeSnapshotContent) {
		return withStatus(snapshotapi.ContentStatus{Error: &snapshotapi.Error{Message: &text}})
	}
	class := func(name string) func(c *snapshotapi.VolumeSnapshotContent) {
		return func(c *snapshotapi.VolumeSnapshotContent) { c.Spec.VolumeSnapshotClassName = &name }
	}
	finalizer := func(c *snapshotapi.VolumeSnapshotContent) { c.Finalizers = []string{"f"} }
	managed := func(c *snapshotapi.VolumeSnapshotContent) {
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	}
	member := annotation(snapshotapi.GroupHandleAnnotation, "g")
	for name, test := range map[string]struct {
		before, after *snapshotapi.VolumeSnapshotContent
		want          bool
	}{
		"new":                           {nil, ofVolume(), true},
		"new and ready":                 {nil, ofVolume(withStatus(snapshotapi.ContentStatus{ReadyToUse: ptr.To(true)})), false},
		"no change":                     {ofVolume(), ofVolume(), false},
		"spec":                          {ofVolume(class("a")), ofVolume(class("b")), true},
		"status":                        {ofVolume(message("a")), ofVolume(message("b")), false},
		"first status":                  {ofVolume(), ofVolume(message("b")), false},
		"ready":                         {ofVolume(message("a")), ofVolume(withStatus(snapshotapi.ContentStatus{ReadyToUse: ptr.To(true)})), false},
		"finalizers":                    {ofVolume(), ofVolume(finalizer), false},
		"managed fields":                {ofVolume(), ofVolume(managed), false},
		"own annotation changed":        {ofVolume(annotation(snapshotapi.BeingCreated, "a")), ofVolume(annotation(snapshotapi.BeingCreated, "b")), false},
		"own annotation added":          {ofVolume(), ofVolume(annotation(snapshotapi.BeingCreated, "a")), false},
		"own annotation removed":        {ofVolume(annotation(snapshotapi.BeingCreated, "a")), ofVolume(), false},
		"another annotation changed":    {ofVolume(annotation("x", "a")), ofVolume(annotation("x", "b")), true},
		"another annotation added":      {ofVolume(), ofVolume(annotation("x", "b")), true},
		"another annotation removed":    {ofVolume(annotation("x", "b")), ofVolume(), true},
		"agreed":                        {ofVolume(), ofVolume(annotation(snapshotapi.BeingDeleted, "yes")), true},
		"deleted":                       {ofVolume(), ofVolume(deleting), true},
		"a member that gets its handle": {ofVolume(member), ofVolume(member, withStatus(snapshotapi.ContentStatus{SnapshotHandle: ptr.To("h"), VolumeGroupSnapshotHandle: ptr.To("g")})), true},
	} {
		if test.before != nil {
			test.after.ResourceVersion = "2"
		}
		if got := needsSync(test.before, test.after); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestGroupNeedsSync(t *testing.T) {
	type change = func(c *snapshotapi.VolumeGroupSnapshotContent)
	content := func(change change) *snapshotapi.VolumeGroupSnapshotContent {
		c := &snapshotapi.VolumeGroupSnapshotContent{}
		c.Spec.Source.VolumeHandles = []string{"v"}
		change(c)
		return c
	}
	none := func(*snapshotapi.VolumeGroupSnapshotContent) {}
	annotated := func(key string) change {
		return func(c *snapshotapi.VolumeGroupSnapshotContent) { c.Annotations = map[string]string{key: "yes"} }
	}
	isReady := func(ready bool) change {
		return func(c *snapshotapi.VolumeGroupSnapshotContent) {
			c.Status = &snapshotapi.GroupContentStatus{ReadyToUse: &ready}
		}
	}
	for name, test := range map[string]struct {
		before, after change
		want          bool
	}{
		"no change":                {none, none, false},
		"spec":                     {none, func(c *snapshotapi.VolumeGroupSnapshotContent) { c.Spec.Driver = "d" }, true},
		"status":                   {none, isReady(false), false},
		"ready":                    {isReady(false), isReady(true), false},
		"ready at first":           {none, isReady(true), false},
		"finalizers":               {none, func(c *snapshotapi.VolumeGroupSnapshotContent) { c.Finalizers = []string{"f"} }, false},
		"own annotation added":     {none, annotated(snapshotapi.GroupBeingCreated), false},
		"own annotation removed":   {annotated(snapshotapi.GroupBeingCreated), none, false},
		"another annotation added": {none, annotated(snapshotapi.GroupBeingDeleted), true},
		"another besides its own":  {annotated(snapshotapi.GroupBeingCreated), annotated("x"), true},
		"deleted":                  {none, func(c *snapshotapi.VolumeGroupSnapshotContent) { c.DeletionTimestamp = &metav1.Time{} }, true},
	} {
		if got := groupNeedsSync(content(test.before), content(test.after)); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
