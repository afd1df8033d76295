package csireq

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// ListVolumes returns the volumes of a driver, of all pages.
func ListVolumes(ctx context.Context, controller csi.ControllerClient) ([]*csi.Volume, error) {
	var all []*csi.Volume
	err := eachPage(func(token string) (string, error) {
		page, err := controller.ListVolumes(ctx, &csi.ListVolumesRequest{StartingToken: token})
		for _, entry := range page.GetEntries() {
			all = append(all, entry.GetVolume())
		}
		return page.GetNextToken(), err
	})
	return all, err
}

// ListSnapshots returns the snapshots of a driver, of all pages.
func ListSnapshots(ctx context.Context, controller csi.ControllerClient) ([]*csi.Snapshot, error) {
	var all []*csi.Snapshot
	err := eachPage(func(token string) (string, error) {
		page, err := controller.ListSnapshots(ctx, &csi.ListSnapshotsRequest{StartingToken: token})
		for _, entry := range page.GetEntries() {
			all = append(all, entry.GetSnapshot())
		}
		return page.GetNextToken(), err
	})
	return all, err
}

// eachPage reads pages from the first to the last. read returns the token of the next page.
func eachPage(read func(token string) (next string, err error)) error {
	token := ""
	for {
		next, err := read(token)
		if err != nil || next == "" {
			return err
		}
		token = next
	}
}
