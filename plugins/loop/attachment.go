package loop

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/nodefs/loopdev"
)

const (
	markPrefix      = "volsim"
	volumeKeyDigits = 16
	nodeKeyDigits   = 12
	runIDCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

// attachment is a volume that is plugged into a node.
type attachment struct {
	loopdev.Bound
	node string // the node's key in the mark
}

// mark is what is written on the device of a volume on a node, 63 bytes at most.
func (d *Driver) mark(volumeID, nodeID string) string {
	return strings.Join([]string{
		markPrefix, d.runID,
		strings.TrimPrefix(volumeID, "vol-"),
		digest(nodeID, nodeKeyDigits),
	}, ":")
}

// attachment finds out where an existing volume is attached; nil is nowhere. A
// device over the volume's file that does not carry our mark, or over an older
// file of the same name, is FailedPrecondition, one that is about to go Aborted.
func (d *Driver) attachment(volumeID string) (*attachment, error) {
	file := d.image(volumeID)
	loops, err := loopdev.List(func(backing string) bool { return backing == file })
	if err != nil {
		return nil, d.status(err)
	}
	var found *attachment
	for _, each := range loops {
		node, ours := d.nodeKey(each.Mark, volumeID)
		switch {
		case each.Deleted:
			return nil, status.Errorf(codes.FailedPrecondition,
				"%s holds an earlier file of volume %s that was removed behind the driver's back: losetup -d %s frees it", each.Device, volumeID, each.Device)
		case !ours:
			return nil, status.Errorf(codes.FailedPrecondition,
				"volume %s is bound to %s, marked %q, by somebody else: losetup -d %s frees it", volumeID, each.Device, each.Mark, each.Device)
		case each.Autoclear:
			return nil, status.Errorf(codes.Aborted, "%s of volume %s is being detached: try again", each.Device, volumeID)
		}
		found = &attachment{Bound: each, node: node}
	}
	return found, nil
}

// nodeKey takes the node's key out of a mark; false if the mark is not one of
// this run for this volume.
func (d *Driver) nodeKey(mark, volumeID string) (string, bool) {
	return strings.CutPrefix(mark, strings.TrimSuffix(d.mark(volumeID, ""), digest("", nodeKeyDigits)))
}

// nodeName returns the id of the node with a key, as far as it is known.
func (d *Driver) nodeName(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id, ok := d.nodes[key]; ok {
		return id
	}
	return fmt.Sprintf("(unknown node, digest %s)", key)
}

// knows tells whether Node was called for a node.
func (d *Driver) knows(nodeID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[digest(nodeID, nodeKeyDigits)] == nodeID
}
