package invariant

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about sizes.
var expandRules = []builtIn{
	{
		"I33", "a claim that shrinks or exceeds its volume, or a volume expanded on a node before its backend",
		beginSizes,
	},
}

// provisionedBy annotates a volume with its provisioner.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// sizes is the state of I33: capacities.
type sizes struct {
	c       *Checker
	largest map[types.UID]resource.Quantity // volume: the largest capacity it has had
}

// beginSizes checks capacities. While a claim is bound, its capacity must not fall, nor exceed the
// largest one of its volume, nor, when it grows, that of its file system. A volume provisioned by
// the driver must not be larger than it is at the driver. A node must not request more than that
// either.
func beginSizes(c *Checker) watcher {
	s := &sizes{c: c, largest: reuse.Map[types.UID, resource.Quantity](c.Reuse)}
	return watcher{
		call:    s.call,
		commits: claimsAndVolumes,
		commit: func(e fake.Commit) {
			switch after := e.After.(type) {
			case *corev1.PersistentVolumeClaim:
				if e.Type == "MODIFIED" {
					s.claim(e.Before.(*corev1.PersistentVolumeClaim), after)
				}
			case *corev1.PersistentVolume:
				s.volume(after, e.Type == "DELETED")
			}
		},
	}
}

func (s *sizes) claim(was, is *corev1.PersistentVolumeClaim) {
	before, after := was.Status.Capacity[corev1.ResourceStorage], is.Status.Capacity[corev1.ResourceStorage]
	if is.Status.Phase != corev1.ClaimBound || before.Cmp(after) == 0 {
		return
	}
	if was.Status.Phase == corev1.ClaimBound && after.Cmp(before) < 0 {
		s.c.report("I33", "claim %s/%s is bound, and its capacity fell from %s to %s",
			is.Namespace, is.Name, before.String(), after.String())
	}
	obj, ok := s.c.API.Get("persistentvolumes", "", is.Spec.VolumeName)
	if !ok {
		return
	}
	v := obj.(*corev1.PersistentVolume)
	if was.Status.Phase == corev1.ClaimBound && v.Spec.CSI != nil {
		s.fileSystem(is, v, after)
	}
	ref := v.Spec.ClaimRef
	largest, known := s.largest[obj.GetUID()]
	if known && ref != nil && ref.UID == is.UID && after.Cmp(largest) > 0 {
		s.c.report("I33", "claim %s/%s says that it has %s, but its volume %s never had more than %s",
			is.Namespace, is.Name, after.String(), obj.GetName(), largest.String())
	}
}

// fileSystem checks the size of the file system in the volume of an expanded claim.
func (s *sizes) fileSystem(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, capacity resource.Quantity) {
	if made, ok := s.c.held(v); ok && made.FSBytes > 0 && capacity.Value() > made.FSBytes {
		s.c.report("I33", "claim %s/%s says that it has %s now, but the file system in %s has %d bytes",
			claim.Namespace, claim.Name, capacity.String(), made.Handle, made.FSBytes)
	}
}

// call checks the size that a node requests.
func (s *sizes) call(r trace.Record) {
	if r.Verb != "NodeExpandVolume" {
		return
	}
	call := deviceCallOf(r)
	b := s.c.backend(call.driver)
	if b == nil {
		return
	}
	if made, ok := b.Volume(call.handle); ok && call.bytes > made.Bytes {
		s.c.report("I33", "%d bytes of volume %s are asked for on node %s, and it has %d at the driver", call.bytes,
			call.handle, call.node, made.Bytes)
	}
}

func (s *sizes) volume(v *corev1.PersistentVolume, deleted bool) {
	if deleted {
		delete(s.largest, v.UID)
		return
	}
	capacity := v.Spec.Capacity[corev1.ResourceStorage]
	largest, known := s.largest[v.UID]
	if known && capacity.Cmp(largest) <= 0 {
		return
	}
	s.largest[v.UID] = capacity
	if v.Spec.CSI == nil || v.Annotations[provisionedBy] != v.Spec.CSI.Driver {
		return
	}
	if made, ok := s.c.held(v); ok && capacity.Value() > made.Bytes {
		s.c.report("I33", "volume %s says that it has %s, but %s has %d bytes at the driver", v.Name,
			capacity.String(), made.Handle, made.Bytes)
	}
}
