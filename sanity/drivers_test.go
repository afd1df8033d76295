package sanity

import "maps"

// drivers are what is tested, and why specs are left out of each.
func drivers() []*subject {
	return []*subject{
		{name: "array", kind: "array", flags: []string{"--volumes-per-node=8"}, skips: reasons(upstreams, noCopies, noSettings, noGroups, noHealth)},
		{name: "loop", kind: "loop", onDevices: true, skips: reasons(upstreams, noCopies, noSettings, noGroups, nodeAttaches)},
		{
			name: "loop, attached by the controller service", kind: "loop", onDevices: true,
			flags: []string{"--node-attaches=false", "--topology-key="},
			skips: reasons(upstreams, noCopies, noSettings, noGroups, noLimit),
		},
		{
			name: "loop, as devices", kind: "loop", onDevices: true, block: true,
			skips: reasons(upstreams, noCopies, noSettings, noGroups, nodeAttaches),
		},
	}
}

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
		"ControllerGetVolumeHealth not supported":  "health is not told",
		"ControllerListVolumeHealth not supported": "health is not told",
		"NodeGetVolumeHealth not supported":        "health is not told",
		"NodeGetStorageHealth not supported":       "health is not told",
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

func reasons(all ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, each := range all {
		maps.Copy(sum, each)
	}
	return sum
}
