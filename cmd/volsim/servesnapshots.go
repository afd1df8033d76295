package main

import (
	"slices"
	"strings"
)

const snapshotsHelp = "VolumeSnapshots and VolumeGroupSnapshots are served, with default classes of the driver that have the name of its\n" +
	"StorageClass. The printed components act on them: snapshotcontroller replaces the snapshot-controller, snapshotter the\n" +
	"csi-snapshotter of a driver. Stop them on the page, or leave them out of --components, to do their work by other programs.\n"

// actingOnSnapshots says which of the components act on snapshots.
func actingOnSnapshots(components []string) string {
	acting := slices.DeleteFunc(slices.Clone(components), func(name string) bool {
		kind, _, _ := strings.Cut(name, "(")
		return kind != "snapshotcontroller" && kind != "snapshotter"
	})
	if len(acting) == 0 {
		return "no component acts on snapshots: run a snapshot-controller and csi-snapshotters"
	}
	return "by " + strings.Join(acting, ", ")
}
