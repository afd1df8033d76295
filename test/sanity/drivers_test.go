package sanity

import "maps"

// drivers are what is tested, and why specs are left out of each.
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

// What csi-test says of specs that it leaves out, and why that is right.
var (
	upstreams = map[string]string{
		"": "csi-test has it switched off (XIt)",
	}
	noCopies = map[string]string{
		"Snapshot not supported":       "the driver copies no volumes",
		"CreateSnapshot not supported": "the driver copies no volumes",
		"DeleteSnapshot not supported": "the driver copies no volumes",
		"ListSnapshots not supported":  "the driver copies no volumes",
		"GetSnapshot not supported":    "the driver copies no volumes",
		"Volume Cloning not supported": "the driver copies no volumes",
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
		"ControllerGetVolumeHealth not supported":  "nothing in memory falls ill",
		"ControllerListVolumeHealth not supported": "nothing in memory falls ill",
		"NodeGetVolumeHealth not supported":        "nothing in memory falls ill",
		"NodeGetStorageHealth not supported":       "nothing in memory falls ill",
	}
	noSnapshotTopology = map[string]string{
		"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported": "it is alpha and not offered: a snapshot lies where its volume does, and is restored there",
	}
	nodeAttaches = map[string]string{
		"ControllerPublishVolume not supported":             "the node service attaches volumes",
		"ControllerUnpublishVolume not supported":           "the node service attaches volumes",
		"Controller Publish, UnpublishVolume not supported": "the node service attaches volumes",
	}
	noLimit = map[string]string{
		"No MaxVolumesPerNode": "the kernel makes as many loop devices as are wanted",
	}
)

var noDiskLimit = map[string]string{
	"No MaxVolumesPerNode": "how many volumes there can be is for the volume group to say",
}

func reasons(all ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, each := range all {
		maps.Copy(sum, each)
	}
	return sum
}
