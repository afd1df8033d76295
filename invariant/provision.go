package invariant

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about provisioning.
var provisionRules = []builtIn{
	{"I10", "a claim for which two volumes are provisioned", beginOneProvision},
}

// namePrefix is the prefix of the name of a provisioned volume; the claim's UID follows.
//
// Upstream: pkg/controller/volume/persistentvolume getProvisionedVolumeNameForClaim (v1.36).
const namePrefix = "pvc-"

// beginOneProvision checks that the name of a provisioned volume is derived from the UID of a
// claim, and that there is never more than one volume of a name. The PersistentVolume created for
// it must have the same name and refer to the same claim.
//
// A claim may get another volume after the first was deleted: a restarted provisioner whose cache
// lags cannot know better.
func beginOneProvision(c *Checker) watcher {
	claims := reuse.Map[types.UID, string](c.Reuse) // all claims ever: UID, namespace/name
	makers := reuse.Map[string, bool](c.Reuse)      // components that provision
	made := reuse.Map[string, []string](c.Reuse)    // by name: the paths at which a plugin provisioned volumes
	w := onClaims(func(_, after *corev1.PersistentVolumeClaim) {
		if after != nil && claims[after.UID] == "" {
			claims[after.UID] = after.Namespace + "/" + after.Name
		}
	})
	w.call = func(r trace.Record) {
		call := dataCallOf(r)
		if call.verb != dataMade {
			return
		}
		makers[componentOf(r.Task)] = true
		claim := claims[types.UID(strings.TrimPrefix(call.name, namePrefix))]
		if !strings.HasPrefix(call.name, namePrefix) || claim == "" {
			c.report("I10", "%s requested a volume named %q, which belongs to no claim", r.Task, call.name)
			return
		}
		if path := call.path; path != "" && !slices.Contains(made[call.name], path) {
			made[call.name] = append(made[call.name], path)
		}
		if handles := c.madeFor(call, made[call.name]); tookEffect(r) && len(handles) > 1 {
			c.report("I10", "there are %d volumes for claim %s: %s", len(handles), claim, strings.Join(handles, ", "))
		}
	}
	w.writes = volumesOnly
	w.write = func(r trace.Record) {
		v, ok := r.After.(*corev1.PersistentVolume)
		if !ok || r.Verb != "create" || !tookEffect(r) || !makers[componentOf(r.Task)] {
			return
		}
		is, held := c.held(v)
		switch uid := refUID(v); {
		case v.Name != namePrefix+string(uid):
			c.report("I10", "%s created PersistentVolume %s for the claim with UID %q", r.Task, v.Name, uid)
		case held && is.Name != v.Name:
			c.report("I10", "%s created PersistentVolume %s for volume %s, which was provisioned as %s",
				r.Task, v.Name, is.Handle, is.Name)
		}
	}
	return w
}

// madeFor returns the handles of the volumes with the requested name of a call. paths are those at
// which a plugin provisioned: a directory identifies its claim by its path alone.
func (c *Checker) madeFor(call dataCall, paths []string) []string {
	b := c.backend(call.driver)
	if b == nil {
		return nil
	}
	var handles []string
	for _, v := range b.Volumes() {
		if v.Name == call.name || slices.Contains(paths, v.Handle) {
			handles = append(handles, v.Handle)
		}
	}
	return handles
}
