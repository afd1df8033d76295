package lvm

import (
	"crypto/sha256"
	"fmt"
	"regexp"
)

const (
	groupPrefix = "volsim-"
	// nodeNameMax is how long a node's name may be to stand in that of its volume group
	// as it is: LVM's names, together and with some of its own added, are 127 long at most.
	nodeNameMax = 40
	// nodeNamePrefixMax is how much of a longer one stands there, for people.
	nodeNamePrefixMax = 16
)

var (
	// validNodeName are names of nodes that LVM takes. "+" is left for those that are not.
	validNodeName    = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	invalidCharacter = regexp.MustCompile(`[^A-Za-z0-9_.]`)
)

// groupName returns the name of a node's volume group where NodeConfig has none:
// "volsim-" and the node's name, or, where LVM does not take that or it is long,
// some of it and a hash. It differs for any two nodes: with device-mapper, the names
// of all volume groups of a machine must.
func groupName(node string) string {
	if len(node) <= nodeNameMax && validNodeName.MatchString(node) {
		return groupPrefix + node
	}
	part := invalidCharacter.ReplaceAllString(node, "_")
	sum := sha256.Sum256([]byte(node))
	return fmt.Sprintf("%s%.*s+%x", groupPrefix, nodeNamePrefixMax, part, sum[:16])
}
