package csitest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/invariant"
)

// judge returns the findings of a trial whose world has come to its end, with or without an error.
func (w *world) judge(ctx context.Context, t trial, err error) []finding {
	if found := w.observer.found(); len(found) > 0 {
		return found
	}
	var about *lostData
	violation := w.violation(err == nil)
	switch {
	case errors.As(err, &about):
		return []finding{{t.call.rpc, "data", t.sentence("data is lost: " + about.why)}}
	case violation != nil:
		return []finding{{t.call.rpc, "rule " + violation.Rule.ID, t.sentence(violation.Error())}}
	case err != nil:
		return []finding{w.stuck(t, err)}
	}
	if pending := w.pending(); len(pending) > 0 {
		return []finding{w.stuck(t, errors.New(strings.Join(pending, "; ")))}
	}
	return w.leaks(ctx, t)
}

// sentence returns a finding that is not about one answer.
func (t *trial) sentence(what string) string {
	if circumstances := t.circumstances(); circumstances != "" {
		return strings.ToUpper(circumstances[:1]) + circumstances[1:] + ": " + what
	}
	return what
}

// circumstances returns what is special about the trial: "after a reboot of the node".
func (t *trial) circumstances() string {
	if t.seed > 0 {
		return "in a drawn schedule"
	}
	if t.call.n == 0 {
		return t.story.when
	}
	return strings.TrimSpace(t.how.phrase(t.call.rpc) + " " + t.story.when)
}

// violation returns the first rule that the world violates, nil if there is none.
func (w *world) violation(atRest bool) *invariant.Violation {
	if w.checker == nil {
		return nil
	}
	if atRest {
		w.checker.CheckAtRest()
	}
	return w.checker.FirstViolation()
}

// pending returns what is pending in a world at rest.
func (w *world) pending() []string {
	if w.checker == nil {
		return w.cluster.Pending()
	}
	var all []string
	for _, p := range w.checker.CheckAtRest() {
		all = append(all, p.String())
	}
	return all
}

// stuck returns the finding of a world that does not reach its end: about the call that keeps failing, if there
// is one.
func (w *world) stuck(t trial, err error) finding {
	c := w.observer.unresolved()
	if c == nil {
		why := err.Error()
		if pending := w.cluster.Pending(); len(pending) > 0 {
			why = strings.Join(pending, "; ")
		}
		return finding{t.call.rpc, "stuck", t.sentence(why)}
	}
	return finding{c.rpc, "stuck", strings.TrimSpace(fmt.Sprintf("%s fails %s", c.rpc, t.circumstances())) + ", with " + failure(c.err)}
}

// What is left is named, so that what was there before can be left out.
type left struct{ volumes, snapshots, mounts []string }

// left returns the volumes and snapshots that the driver lists, and the mounts of the nodes.
func (w *world) left(ctx context.Context) (left, error) {
	var l left
	controller := csispec.NewControllerClient(w.observer.controller)
	volumes, err := csireq.ListVolumes(ctx, controller)
	if err != nil && status.Code(err) != codes.Unimplemented {
		return l, fmt.Errorf("ListVolumes: %w", err)
	}
	for _, v := range volumes {
		l.volumes = append(l.volumes, v.GetVolumeId())
	}
	snapshots, err := csireq.ListSnapshots(ctx, controller)
	if err != nil && status.Code(err) != codes.Unimplemented {
		return l, fmt.Errorf("ListSnapshots: %w", err)
	}
	for _, s := range snapshots {
		l.snapshots = append(l.snapshots, s.GetSnapshotId())
	}
	for _, disk := range w.observer.disks {
		mounts, err := disk.Mounts()
		if err != nil {
			return l, err
		}
		for _, m := range mounts {
			l.mounts = append(l.mounts, m.Path)
		}
	}
	slices.Sort(l.mounts)
	return l, nil
}

// leaks returns findings about what is left although all objects are gone.
func (w *world) leaks(ctx context.Context, t trial) []finding {
	now, err := w.left(ctx)
	if err != nil {
		return []finding{{"", "list", err.Error()}}
	}
	var all []finding
	for _, id := range without(now.volumes, w.before.volumes) {
		if f, is := w.leak(t, id, "volume", "CreateVolume", "DeleteVolume"); is {
			all = append(all, f)
		}
	}
	for _, id := range without(now.snapshots, w.before.snapshots) {
		if f, is := w.leak(t, id, "snapshot", "CreateSnapshot", "DeleteSnapshot"); is {
			all = append(all, f)
		}
	}
	for _, path := range without(now.mounts, w.before.mounts) {
		rpc := "NodeUnpublishVolume"
		if strings.Contains(path, "globalmount") {
			rpc = "NodeUnstageVolume"
		}
		all = append(all, finding{rpc, "mount", t.sentence("a mount of the volume is left on a node")})
	}
	for _, object := range invariant.Leaks(w.cluster.Server()) {
		if !strings.Contains(object, "volumesnapshotclass") {
			all = append(all, finding{t.call.rpc, "object", t.sentence("left: " + object)})
		}
	}
	return all
}

// leak returns the finding about a volume or snapshot that still exists, and whether it is due to the driver. It is
// not if the driver was not asked to delete what it has answered: a provisioner that crashes before it has saved a
// volume, whose claim is deleted meanwhile, leaves it, as upstream's does.
func (w *world) leak(t trial, id, kind, create, remove string) (finding, bool) {
	switch _, known := w.observer.names[id]; {
	case w.observer.deleted[id]:
		return finding{remove, "leak", fmt.Sprintf("%s succeeds, but the %s still exists", remove, kind)}, true
	case !known:
		return finding{create, "leak", t.sentence(fmt.Sprintf("%s has made a %s, and has not answered its ID", create, kind))}, true
	default:
		return finding{}, false
	}
}

// without returns the elements of a list that another one lacks.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
