package localstorage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The parameters of a class.
const (
	nodesParameter    = "nodes"
	fsTypeParameter   = "csi.storage.k8s.io/fstype"
	strategyParameter = "strategy"
)

// defaultFSType is the file system of volumes whose class names none.
const defaultFSType = "ext4"

// parameters are the parameters of a class.
type parameters struct {
	nodes   []nodeDisks
	fsType  string
	binPack bool // fill nodes, instead of spreading volumes
}

// nodeDisks are the disks of a class on one node.
type nodeDisks struct {
	Node  string   `json:"node"`
	Disks []string `json:"disks"`
}

// disksOf returns the disks of a node, nil if the class has none there.
func (p parameters) disksOf(node string) []string {
	for _, each := range p.nodes {
		if each.Node == node {
			return each.Disks
		}
	}
	return nil
}

// isOurs reports whether a class is one of this package.
func isOurs(class *storagev1.StorageClass) bool {
	return class != nil && class.Provisioner == Provisioner
}

// isDelayed reports whether a class waits for the first consumer of a claim.
func isDelayed(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// parseClass returns the parameters of a class, or an error that says which one is wrong, and where.
func parseClass(class *storagev1.StorageClass) (parameters, error) {
	p := parameters{fsType: defaultFSType}
	for _, name := range slices.Sorted(maps.Keys(class.Parameters)) {
		value := class.Parameters[name]
		switch name {
		case nodesParameter:
			nodes, err := parseNodes(value)
			if err != nil {
				return parameters{}, fmt.Errorf("parameter nodes: %w", err)
			}
			p.nodes = nodes
		case fsTypeParameter:
			p.fsType = value
		case strategyParameter:
			if value != "spread" && value != "binpack" {
				return parameters{}, fmt.Errorf("parameter strategy: %q: must be spread or binpack", value)
			}
			p.binPack = value == "binpack"
		default:
			return parameters{}, fmt.Errorf("parameter %s: unknown; there are nodes, strategy and %s", name, fsTypeParameter)
		}
	}
	if p.nodes == nil {
		return parameters{}, errors.New(`parameter nodes: required, such as [{"node":"node-1","disks":["/dev/sdb"]}]`)
	}
	if policy := class.ReclaimPolicy; policy != nil && *policy == corev1.PersistentVolumeReclaimRecycle {
		return parameters{}, errors.New("reclaimPolicy Recycle is not supported")
	}
	return p, nil
}

// wrongType returns the error of a value of the wrong type, in words of JSON.
func wrongType(err *json.UnmarshalTypeError) error {
	want := "a list"
	switch err.Type.Kind() { //nolint:exhaustive // the types of nodeDisks
	case reflect.String:
		want = "a string"
	case reflect.Struct:
		want = `an object such as {"node":"node-1","disks":["/dev/sdb"]}`
	}
	field := err.Field
	if field != "" {
		field += ": "
	}
	return fmt.Errorf("byte %d: %smust be %s, not %s", err.Offset, field, want, err.Value)
}

// parseNodes parses the disks of a class.
func parseNodes(text string) ([]nodeDisks, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	var nodes []nodeDisks
	if err := decoder.Decode(&nodes); err != nil {
		at := decoder.InputOffset()
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = syntax.Offset
		} else if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
			return nil, wrongType(kind)
		} else if strings.Contains(err.Error(), "unknown field") {
			return nil, fmt.Errorf("%w; there are node and disks", err)
		} else if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			at = int64(len(text))
		}
		return nil, fmt.Errorf("byte %d: %w", at, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("byte %d: text after the list", decoder.InputOffset())
	}
	if len(nodes) == 0 {
		return nil, errors.New("the list is empty")
	}
	seen := map[string]int{}
	for i, each := range nodes {
		if each.Node == "" {
			return nil, fmt.Errorf("[%d]: node: required", i)
		}
		if first, twice := seen[each.Node]; twice {
			return nil, fmt.Errorf("[%d]: node %q: already in [%d]", i, each.Node, first)
		}
		seen[each.Node] = i
		if len(each.Disks) == 0 {
			return nil, fmt.Errorf("[%d]: node %q: disks: the list is empty", i, each.Node)
		}
		for j, disk := range each.Disks {
			clean := path.Clean(disk)
			if !strings.HasPrefix(disk, "/") || clean != disk || disk == "/" {
				return nil, fmt.Errorf("[%d]: node %q: disks[%d]: %q: must be an absolute path without dots", i, each.Node, j, disk)
			}
			if first := slices.Index(each.Disks, disk); first < j {
				return nil, fmt.Errorf("[%d]: node %q: disks[%d]: %q: already in disks[%d]", i, each.Node, j, disk, first)
			}
		}
	}
	return nodes, nil
}
