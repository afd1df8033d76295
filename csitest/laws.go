package csitest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

// check compares the answer to a call with the last successful call about the same thing.
//
// Upstream: the CSI specification, "Timeouts" and the section of each RPC.
func (o *observer) check(c, before *call) {
	repeats := before != nil && before.rpc == c.rpc && proto.Equal(before.request, c.request)
	switch {
	case c.err != nil && !isTransient(c.err):
		o.checkRefusal(c, before, repeats)
	case c.err == nil:
		if repeats {
			o.checkSame(c, before)
		}
		o.checkSize(c, before)
		o.checkPaths(c, before)
	}
}

// isTransient reports whether a call that may be repeated may fail in this way: the driver is busy, or cannot
// know yet.
func isTransient(err error) bool {
	switch status.Code(err) {
	case codes.Aborted, codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

// checkRefusal is check for a call that failed for good.
func (o *observer) checkRefusal(c, before *call, repeats bool) {
	gone := c.undoes && o.deleted[volumeOf(c.request)]
	switch {
	case repeats && gone && c.rpc == "ControllerUnpublishVolume":
		o.add(c.rpc, "deleted", "%s fails with %s for a volume that has been deleted meanwhile", c.rpc, failure(c.err))
	case gone && c.node != "": // the specification allows it
	case repeats:
		o.add(c.rpc, "idempotent", "%s is not idempotent: the second call after %s fails with %s", c.rpc, o.since(before), failure(c.err))
	case c.undoes && before == nil && !o.tried[c.key]:
		o.add(c.rpc, "idempotent", "%s fails with %s for a volume that is not %s", c.rpc, failure(c.err), undone[c.rpc])
	}
}

// undone says what a volume is not, by the RPC that undoes it.
var undone = map[string]string{
	"ControllerUnpublishVolume": "attached", "NodeUnstageVolume": "staged", "NodeUnpublishVolume": "published",
}

// failure returns an error as "CODE: message".
func failure(err error) string {
	s := status.Convert(err)
	return fmt.Sprintf("%s: %s", s.Code(), s.Message())
}

// since returns what happened after an earlier call, as "a lost response".
func (o *observer) since(before *call) string {
	switch {
	case before.lost != "":
		return before.lost
	case o.restarts > before.restarts:
		return "a restart of the driver"
	case o.crashes > before.crashes:
		return "a crash of the " + o.crashed
	default:
		return "a successful one"
	}
}

// checkSame is check for a call that repeats a successful one.
func (o *observer) checkSame(c, before *call) {
	second := "the second call after " + o.since(before)
	switch r := c.response.(type) {
	case *csispec.CreateVolumeResponse:
		if was := before.response.(*csispec.CreateVolumeResponse).GetVolume().GetVolumeId(); was != r.GetVolume().GetVolumeId() {
			o.add(c.rpc, "idempotent", "%s is not idempotent: %s makes a second volume", c.rpc, second)
		}
	case *csispec.CreateSnapshotResponse:
		if was := before.response.(*csispec.CreateSnapshotResponse).GetSnapshot().GetSnapshotId(); was != r.GetSnapshot().GetSnapshotId() {
			o.add(c.rpc, "idempotent", "%s is not idempotent: %s makes a second snapshot", c.rpc, second)
		}
	case *csispec.ControllerPublishVolumeResponse:
		was := before.response.(*csispec.ControllerPublishVolumeResponse).GetPublishContext()
		for _, key := range slices.Sorted(maps.Keys(was)) {
			if _, ok := r.GetPublishContext()[key]; !ok {
				o.add(c.rpc, "context", "%s is not idempotent: %s is answered without %q in publish_context", c.rpc, second, key)
				return
			}
		}
	}
}

// checkSize compares the size of an expanded volume with the request, and with earlier sizes.
func (o *observer) checkSize(c, before *call) {
	r, ok := c.request.(*csispec.ControllerExpandVolumeRequest)
	if !ok {
		return
	}
	id, size := r.GetVolumeId(), c.response.(*csispec.ControllerExpandVolumeResponse).GetCapacityBytes()
	if wanted := r.GetCapacityRange().GetRequiredBytes(); size < wanted {
		o.add(c.rpc, "size", "%s answers %d bytes for a request of %d", c.rpc, size, wanted)
		return
	}
	was := max(o.granted[id], size)
	if is, ok := o.sizeOf(id); ok && is < was {
		when := "the first call"
		if before != nil {
			when = "the second call after " + o.since(before)
		}
		o.add(c.rpc, "size", "%s shrinks the volume: after %s it has %d bytes, and had %d", c.rpc, when, is, was)
	}
}

// sizeOf returns the size of a volume, if ListVolumes reports it.
func (o *observer) sizeOf(id string) (size int64, ok bool) {
	volumes, err := csireq.ListVolumes(context.Background(), csispec.NewControllerClient(o.controller))
	if err != nil {
		return 0, false
	}
	for _, v := range volumes {
		if v.GetVolumeId() == id {
			return v.GetCapacityBytes(), v.GetCapacityBytes() > 0
		}
	}
	return 0, false
}

// checkPaths compares the paths of a node with what a call should have done there.
func (o *observer) checkPaths(c, before *call) {
	disk := o.disks[c.node]
	if disk == nil {
		return
	}
	switch r := c.request.(type) {
	case *csispec.NodeStageVolumeRequest:
		o.checkMountedOnce(c, before, disk, r.GetStagingTargetPath(), "staging")
	case *csispec.NodePublishVolumeRequest:
		o.checkMountedOnce(c, before, disk, r.GetTargetPath(), "target")
	case *csispec.NodeUnstageVolumeRequest:
		if mountsAt(disk, r.GetStagingTargetPath()) > 0 {
			o.add(c.rpc, "path", "%s leaves a mount at the staging path", c.rpc)
		}
	case *csispec.NodeUnpublishVolumeRequest:
		if mountsAt(disk, r.GetTargetPath()) > 0 {
			o.add(c.rpc, "path", "%s leaves a mount at the target path", c.rpc)
		} else if exists, err := disk.Exists(r.GetTargetPath()); exists && err == nil {
			o.add(c.rpc, "path", "%s leaves the target path", c.rpc)
		}
	}
}

func (o *observer) checkMountedOnce(c, before *call, disk nodefs.FS, path, of string) {
	if n := mountsAt(disk, path); n > 1 {
		when := "the first call"
		if before != nil && before.rpc == c.rpc {
			when = "the second call after " + o.since(before)
		}
		o.add(c.rpc, "mounts", "%s is not idempotent: after %s there are %d mounts at the %s path", c.rpc, when, n, of)
	}
}

// checkNodeID compares the ID of a node with those of others, and with what it was.
func (o *observer) checkNodeID(node, id string) {
	if was, ok := o.nodeIDs[node]; ok && was != id {
		o.add("NodeGetInfo", "id", "NodeGetInfo answers another node_id than before, %q and then %q", was, id)
	}
	o.nodeIDs[node] = id
	for _, other := range slices.Sorted(maps.Keys(o.nodeIDs)) {
		if other != node && o.nodeIDs[other] == id {
			o.add("NodeGetInfo", "id", "NodeGetInfo answers the same node_id %q on %s and %s", id, min(node, other), max(node, other))
			return
		}
	}
}

// mountsAt returns the number of mounts at a path.
func mountsAt(disk nodefs.FS, path string) int {
	mounts, err := disk.Mounts()
	if err != nil {
		return 0
	}
	n := 0
	for _, m := range mounts {
		if m.Path == path {
			n++
		}
	}
	return n
}

// volumeOf returns the ID of the volume that a request is about; "": it has none.
func volumeOf(request proto.Message) string {
	if r, ok := request.(interface{ GetVolumeId() string }); ok {
		return r.GetVolumeId()
	}
	return ""
}

// rpcs are the RPCs that findings are about, in the order of the specification, and NodeGetInfo.
var rpcs = strings.Fields(`NodeGetInfo CreateVolume DeleteVolume ControllerPublishVolume ControllerUnpublishVolume
	CreateSnapshot DeleteSnapshot ControllerExpandVolume NodeStageVolume NodeUnstageVolume NodePublishVolume
	NodeUnpublishVolume NodeExpandVolume`)
