package nodefs

import mountutils "k8s.io/mount-utils"

// newMounter leaves systemd out: mount.New starts each mount in a transient
// scope, which helps a kubelet that restarts beside FUSE daemons, and us not.
func newMounter() mountutils.Interface { return mountutils.NewWithoutSystemd("") }
