//go:build !linux

package nodefs

import mountutils "k8s.io/mount-utils"

func newMounter() mountutils.Interface { return mountutils.New("") }
