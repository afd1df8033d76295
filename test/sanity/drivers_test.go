package sanity

import "maps"

// drivers returns the drivers under test, with the reasons for skipped specs.
func drivers() []*subject {
	return []*subject{
		{
			name: "array", kind: "array", flags: []string{"--volumes-per-node=8"}, modify: arraySettings,
			skips: reasons(upstreams, noSnapshotTopology),
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
	arraySettings = map[string]string{"iops": "3000"}
	loopSettings  = map[string]string{"readAheadKiB": "256"}
	lvmSettings   = map[string]string{"discard": "true"}
)

// Messages of csi-test for skipped specs, with the reason for skipping them.
var (
	upstreams = map[string]string{
		"": "disabled in csi-test (XIt)",
	}
	noSnapshotTopology = map[string]string{
		"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported": "alpha and not supported: a snapshot is where its volume is and is restored there",
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
