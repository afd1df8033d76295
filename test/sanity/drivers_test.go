package sanity

import "maps"

// drivers returns the drivers under test, with the reasons for skipped specs.
func drivers() []*subject {
	return []*subject{
		{
			name: "array", kind: "array", flags: []string{"--volumes-per-node=8"},
			skips: reasons(upstreams, noCopies, noSettings, noGroups, noHealth),
		},
		{
			name: "loop", kind: "loop", onDevices: true, modify: loopSettings,
			skips: reasons(upstreams, noSnapshotTopology, nodeAttaches),
		},
		{
			name: "loop, attached by the controller service", kind: "loop", onDevices: true, modify: loopSettings,
			flags: []string{"--node-attaches=false", "--topology-key="},
			skips: reasons(upstreams, noSnapshotTopology, noLimit),
		},
		{
			name: "loop, as devices", kind: "loop", onDevices: true, block: true, modify: loopSettings,
			skips: reasons(upstreams, noSnapshotTopology, nodeAttaches),
		},
		{
			name: "lvm", kind: "lvm", onDevices: true, modify: lvmSettings, flags: []string{"--file-size=1Gi"},
			skips: reasons(upstreams, noSnapshotTopology, nodeAttaches),
		},
		{
			name: "lvm, attached by the controller service", kind: "lvm", onDevices: true, modify: lvmSettings,
			flags: []string{"--file-size=1Gi", "--node-attaches=false"},
			skips: reasons(upstreams, noSnapshotTopology, noDiskLimit),
		},
		{
			name: "lvm, as devices", kind: "lvm", onDevices: true, block: true, modify: lvmSettings, flags: []string{"--file-size=1Gi"},
			skips: reasons(upstreams, noSnapshotTopology, nodeAttaches),
		},
	}
}

var (
	loopSettings = map[string]string{"readAheadKiB": "256"}
	lvmSettings  = map[string]string{"discard": "true"}
)

// Messages of csi-test for skipped specs, with the reason for skipping them.
var (
	upstreams = map[string]string{
		"": "disabled in csi-test (XIt)",
	}
	noCopies = map[string]string{
		"Snapshot not supported":       "the driver does not copy volumes",
		"CreateSnapshot not supported": "the driver does not copy volumes",
		"DeleteSnapshot not supported": "the driver does not copy volumes",
		"ListSnapshots not supported":  "the driver does not copy volumes",
		"GetSnapshot not supported":    "the driver does not copy volumes",
		"Volume Cloning not supported": "the driver does not copy volumes",
	}
	noSettings = map[string]string{
		"Modify volume not supported":          "volumes have no settings",
		"Modify Volume not supported":          "volumes have no settings",
		"ControllerModifyVolume not supported": "volumes have no settings",
	}
	noGroups = map[string]string{
		"GroupControllerService not supported": "the driver has no group controller service",
	}
	noHealth = map[string]string{
		"ControllerGetVolumeHealth not supported":  "volumes in memory have no health",
		"ControllerListVolumeHealth not supported": "volumes in memory have no health",
		"NodeGetVolumeHealth not supported":        "volumes in memory have no health",
		"NodeGetStorageHealth not supported":       "volumes in memory have no health",
	}
	noSnapshotTopology = map[string]string{
		"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported": "alpha and not supported: a snapshot is on the node of its volume and is restored there",
	}
	nodeAttaches = map[string]string{
		"ControllerPublishVolume not supported":             "the node service attaches volumes",
		"ControllerUnpublishVolume not supported":           "the node service attaches volumes",
		"Controller Publish, UnpublishVolume not supported": "the node service attaches volumes",
	}
	noLimit = map[string]string{
		"No MaxVolumesPerNode": "the kernel does not limit loop devices",
	}
)

var noDiskLimit = map[string]string{
	"No MaxVolumesPerNode": "the volume group limits the number of volumes",
}

func reasons(all ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, each := range all {
		maps.Copy(sum, each)
	}
	return sum
}
