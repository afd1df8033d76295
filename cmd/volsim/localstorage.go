package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/httpserver"
)

// extenderPath is the path of the scheduler extender: its URL prefix.
const extenderPath = "/localstorage"

// localStorageOptions are the options of dynamic local storage.
type localStorageOptions struct {
	on       bool
	disks    []string
	extender string
}

func (o *localStorageOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.on, "local-storage", false,
		"create local volumes in volume groups, for classes with provisioner localstorage.volsim.dev")
	flags.StringArrayVar(&o.disks, "disk", nil,
		"`disk` of a node as NODE:PATH=SIZE, such as node-1:/dev/sdb=1Gi: an empty block device; repeatable")
	flags.StringVar(&o.extender, "local-storage-extender", "127.0.0.1:0",
		"`address` of the scheduler extender, for other schedulers, with plain HTTP below "+extenderPath+"; \"off\" disables it")
}

// A nodeDisk is a disk of a node.
type nodeDisk struct {
	node string
	cluster.Disk
}

// parseDisk parses NODE:PATH=SIZE.
func parseDisk(text string) (nodeDisk, error) {
	node, rest, hasPath := strings.Cut(text, ":")
	at := strings.LastIndex(rest, "=")
	if !hasPath || node == "" || at < 0 {
		return nodeDisk{}, fmt.Errorf("invalid --disk %q: want NODE:PATH=SIZE, such as node-1:/dev/sdb=1Gi", text)
	}
	name, size := rest[:at], rest[at+1:]
	if !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
		return nodeDisk{}, fmt.Errorf("invalid --disk %q: path %q: must be absolute and without dots", text, name)
	}
	quantity, err := resource.ParseQuantity(size)
	if err != nil || quantity.Sign() <= 0 {
		return nodeDisk{}, fmt.Errorf("invalid --disk %q: size %q: want a positive quantity, such as 1Gi", text, size)
	}
	return nodeDisk{node, cluster.Disk{Path: name, SizeBytes: quantity.Value(), Block: true}}, nil
}

// parseDisks returns the disks. nodes are the nodes that exist, nil for any.
func (o localStorageOptions) parseDisks(nodes []string) ([]nodeDisk, error) {
	var all []nodeDisk
	for _, text := range o.disks {
		disk, err := parseDisk(text)
		if err != nil {
			return nil, err
		}
		if nodes != nil && !slices.Contains(nodes, disk.node) {
			return nil, fmt.Errorf("invalid --disk %q: no such node %q (have %s)", text, disk.node, strings.Join(nodes, ", "))
		}
		if slices.ContainsFunc(all, func(d nodeDisk) bool { return d.node == disk.node && d.Path == disk.Path }) {
			return nil, fmt.Errorf("invalid --disk %q: %s has a disk %s already", text, disk.node, disk.Path)
		}
		all = append(all, disk)
	}
	return all, nil
}

// byNode returns the disks of nodes of any name, by node.
func (o localStorageOptions) byNode() (map[string][]cluster.Disk, error) {
	if err := o.validate(nil); err != nil {
		return nil, err
	}
	disks, err := o.parseDisks(nil)
	byNode := map[string][]cluster.Disk{}
	for _, disk := range disks {
		byNode[disk.node] = append(byNode[disk.node], disk.Disk)
	}
	if len(disks) > 0 && !o.on {
		return nil, errors.New("--disk requires --local-storage")
	}
	return byNode, err
}

func (o localStorageOptions) hasExtender() bool {
	return o.on && o.extender != "" && o.extender != "off"
}

// validate returns an error for invalid options. nodes are the nodes that exist, nil for any.
func (o localStorageOptions) validate(nodes []string) error {
	if o.hasExtender() {
		if err := addressFlag("--local-storage-extender", o.extender); err != nil {
			return err
		}
	}
	_, err := o.parseDisks(nodes)
	return err
}

// An extenderServer serves the scheduler extender of local storage.
type extenderServer struct {
	*httpserver.Server
	url string // the URL prefix of its verbs
}

// listenExtender serves the extender.
func (o localStorageOptions) listenExtender(extender http.Handler) (*extenderServer, error) {
	socket, err := net.Listen("tcp", o.extender)
	if err != nil {
		return nil, fmt.Errorf("--local-storage-extender: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(extenderPath+"/", http.StripPrefix(extenderPath, extender))
	server := httpserver.Serve(socket, httpserver.Config{Handler: localOnly(mux, socket)})
	return &extenderServer{server, "http://" + socket.Addr().String() + extenderPath}, nil
}
