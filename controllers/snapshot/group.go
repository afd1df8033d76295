package snapshot

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim"
)

// groups is the part of the controller that binds VolumeGroupSnapshots to their contents, and creates
// their members.
type groups struct {
	*controller

	groupSnapshots customresource.Cache[snapshotapi.VolumeGroupSnapshot, *snapshotapi.VolumeGroupSnapshot]
	groupContents  customresource.Cache[snapshotapi.VolumeGroupSnapshotContent, *snapshotapi.VolumeGroupSnapshotContent]
	groupClasses   customresource.Cache[snapshotapi.VolumeGroupSnapshotClass, *snapshotapi.VolumeGroupSnapshotClass]
	synced         func() bool // the caches of groups have been filled

	groupClient        customresource.Client[snapshotapi.VolumeGroupSnapshot, *snapshotapi.VolumeGroupSnapshot]
	groupContentClient customresource.Client[snapshotapi.VolumeGroupSnapshotContent, *snapshotapi.VolumeGroupSnapshotContent]

	groupQueue        *sim.Queue[types.NamespacedName]
	groupContentQueue *sim.Queue[string] // by name

	groupWaits      waits[*snapshotapi.VolumeGroupSnapshot]
	ownGroup        versions // of the writes of this process, by namespace/name
	ownGroupContent versions // … by name
}

// errNotSynced means that the caches of groups have not been filled.
var errNotSynced = errors.New("the caches of group snapshots are not filled")

// addGroups adds the part for groups, unless their kinds are not served.
//
// Upstream: external-snapshotter pkg/common-controller NewCSISnapshotCommonController (8.7.0).
func (c *controller) addGroups(queue func(name string) sim.QueueConfig) {
	groupSnapshots, snapshotInformer, err := snapshotapi.GroupSnapshots.Cache(c.cfg.Informers)
	if err != nil {
		return
	}
	groupContents, contentInformer, err := snapshotapi.GroupContents.Cache(c.cfg.Informers)
	if err != nil {
		return
	}
	groupClasses, classInformer, err := snapshotapi.GroupClasses.Cache(c.cfg.Informers)
	if err != nil {
		return
	}
	g := &groups{
		controller: c, groupSnapshots: groupSnapshots, groupContents: groupContents, groupClasses: groupClasses,
		groupClient:        snapshotapi.GroupSnapshots.Client(c.cfg.Dynamic),
		groupContentClient: snapshotapi.GroupContents.Client(c.cfg.Dynamic),
		groupQueue:         sim.NewQueue[types.NamespacedName](c.cfg.Process, queue("groups")),
		groupContentQueue:  sim.NewQueue[string](c.cfg.Process, queue("group contents")),
		ownGroup:           versions{}, ownGroupContent: versions{},
	}
	// The kinds may not be served by another API server: they must not keep the workers from snapshots.
	g.synced = func() bool {
		return snapshotInformer.HasSynced() && contentInformer.HasSynced() && classInformer.HasSynced()
	}
	g.groupWaits = newWaits[*snapshotapi.VolumeGroupSnapshot](c.cfg.Process, g.groupQueue, "groups waiting")
	c.groups = g
	eventhandler.Add(snapshotInformer, func(_, group *unstructured.Unstructured) { g.groupQueue.Add(keyOf(group)) }, g.groupGone)
	eventhandler.Add(contentInformer, func(_, content *unstructured.Unstructured) {
		g.groupContentQueue.Add(content.GetName())
		g.groupWaits.requeue(func(s *snapshotapi.VolumeGroupSnapshot) bool { return wantsGroupContent(s, content.GetName()) })
		g.waits.requeue(isPartOfGroup)
	}, g.groupContentGone)
	eventhandler.Add(classInformer, func(_, _ *unstructured.Unstructured) {
		g.groupWaits.requeue(func(*snapshotapi.VolumeGroupSnapshot) bool { return true })
	}, nil)
	g.groupQueue.Work(g.syncGroupKey)
	g.groupContentQueue.Work(g.syncGroupContentKey)
}

// isPartOfGroup reports whether a snapshot is a member of a group, by its owner or by its status.
func isPartOfGroup(s *snapshotapi.VolumeSnapshot) bool { return s.IsMember() || s.GroupName() != "" }

// wantsGroupContent reports whether a group is bound to a content of the name, or to be.
func wantsGroupContent(group *snapshotapi.VolumeGroupSnapshot, name string) bool {
	own := group.Spec.Source.VolumeGroupSnapshotContentName
	return own != nil && *own == name || group.BoundContent() == name || snapshotapi.GroupContentName(group) == name
}

// groupGone queues the content of a group that does not exist any more, and its members, which may be
// deleted now.
//
// Upstream: external-snapshotter pkg/common-controller deleteGroupSnapshot (8.7.0).
func (g *groups) groupGone(obj *unstructured.Unstructured) {
	g.ownGroup.forget(obj)
	g.groupWaits.end(keyOf(obj))
	g.waits.requeue(isPartOfGroup)
	if group, err := snapshotapi.GroupSnapshots.Parse(obj); err == nil && group.BoundContent() != "" {
		g.groupContentQueue.Add(group.BoundContent())
	}
}

// groupContentGone queues the group of a content that does not exist any more.
//
// Upstream: external-snapshotter pkg/common-controller deleteGroupSnapshotContent (8.7.0).
func (g *groups) groupContentGone(obj *unstructured.Unstructured) {
	g.ownGroupContent.forget(obj)
	if content, err := snapshotapi.GroupContents.Parse(obj); err == nil {
		g.groupQueue.Add(types.NamespacedName{
			Namespace: content.Spec.VolumeGroupSnapshotRef.Namespace, Name: content.Spec.VolumeGroupSnapshotRef.Name,
		})
	}
}

// syncGroupKey syncs a group, if it exists. A cache that lacks a write of this process does not count:
// the write will be delivered.
//
// Upstream: external-snapshotter pkg/common-controller groupSnapshotWorker, syncGroupSnapshotByKey,
// updateGroupSnapshot (8.7.0).
func (g *groups) syncGroupKey(ctx context.Context, key types.NamespacedName) error {
	group := g.groupSnapshots.Get(key.Namespace, key.Name)
	if group == nil || g.ownGroup.isNewer(group) {
		return nil
	}
	if !g.synced() {
		return errNotSynced
	}
	err := g.syncGroupWithClass(ctx, group)
	var unmet *unmetError
	if errors.As(err, &unmet) {
		g.groupWaits.begin(group)
		return nil
	}
	g.groupWaits.end(key)
	return err
}

// syncGroupContentKey syncs the content of a group, if it exists.
//
// Upstream: external-snapshotter pkg/common-controller groupSnapshotContentWorker,
// syncGroupSnapshotContentByKey, updateGroupSnapshotContent (8.7.0).
func (g *groups) syncGroupContentKey(ctx context.Context, name string) error {
	content := g.groupContents.Get("", name)
	if content == nil || g.ownGroupContent.isNewer(content) {
		return nil
	}
	if !g.synced() {
		return errNotSynced
	}
	return g.syncGroupContent(ctx, content)
}

// members returns the snapshots that a group owns: those in the cache, and those of its content that this
// process has created and that the cache lacks, by name. content may be nil.
//
// Differs: the members of an earlier group of the name do not count. Upstream leaves a member that its
// cache lacks to the garbage collector.
//
// Upstream: external-snapshotter pkg/common-controller findGroupSnapshotMembers (8.7.0).
func (g *groups) members(
	group *snapshotapi.VolumeGroupSnapshot, content *snapshotapi.VolumeGroupSnapshotContent,
) []*snapshotapi.VolumeSnapshot {
	members := slices.DeleteFunc(g.snapshots.List(group.Namespace), func(s *snapshotapi.VolumeSnapshot) bool {
		name, uid := s.OwningGroup()
		return name != group.Name || uid != group.UID
	})
	if content == nil || content.Status == nil {
		return members
	}
	for _, info := range content.Status.VolumeSnapshotInfoList {
		name := memberSnapshotName(group, info.VolumeHandle)
		if g.ownSnapshot.has(group.Namespace, name) && g.snapshots.Get(group.Namespace, name) == nil {
			created := &snapshotapi.VolumeSnapshot{}
			created.Namespace, created.Name = group.Namespace, name
			members = append(members, created)
		}
	}
	return members
}
