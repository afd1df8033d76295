package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/volsim/volsim/cluster"
)

// ownDriverOptions are the options of the CSI drivers of a served cluster.
type ownDriverOptions struct {
	drivers     []string
	moreDevices []string
	without     bool
}

const driversHelp = "--driver adds a CSI driver with its sidecars: a server at a unix socket, one per node (NAME@node-1=unix://PATH),\n" +
	"or a command that serve starts for each node, with CSI_ENDPOINT, NODE_NAME and KUBELET_DIR in its environment. The\n" +
	"driver needs real directories of nodes: loop or lvm devices. Create a StorageClass with the provisioner NAME.\n"

func (o *ownDriverOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.drivers, "driver", nil,
		"`driver` to add (repeatable): NAME=unix://PATH, NAME@NODE=unix://PATH or NAME=exec:COMMAND")
	flags.StringSliceVar(&o.moreDevices, "more-devices", nil, "further volume `backend` on the same nodes, with a class of its name: lvm besides loop, or the reverse")
	flags.BoolVar(&o.without, "without-driver", false, "leave out the CSI driver of --devices, with its sidecars and the class \"standard\"")
}

// isSet reports whether an option is given.
func (o *ownDriverOptions) isSet() bool {
	return len(o.drivers) > 0 || len(o.moreDevices) > 0 || o.without
}

// apply sets the drivers of a cluster.
func (o *ownDriverOptions) apply(cfg *cluster.Config) error {
	for _, kind := range o.moreDevices {
		cfg.MoreDevices = append(cfg.MoreDevices, cluster.Devices(kind))
	}
	cfg.WithoutDriver = o.without
	var err error
	cfg.Drivers, err = parseDrivers(o.drivers)
	return err
}

// parseDrivers parses the values of --driver.
func parseDrivers(values []string) ([]cluster.Driver, error) {
	var drivers []cluster.Driver
	for _, value := range values {
		invalid := func(why string) error { return fmt.Errorf("invalid --driver %q: %s", value, why) }
		target, server, found := strings.Cut(value, "=")
		name, node, ofNode := strings.Cut(target, "@")
		socket, isSocket := strings.CutPrefix(server, "unix:")
		command, isCommand := strings.CutPrefix(server, "exec:")
		switch {
		case !found || name == "" || ofNode && node == "" || !isSocket && !isCommand:
			return nil, invalid("want NAME=unix://PATH, NAME@NODE=unix://PATH or NAME=exec:COMMAND")
		case strings.Trim(socket, "/") == "" && isSocket:
			return nil, invalid("the socket is empty: specify its path")
		case strings.TrimSpace(command) == "" && isCommand:
			return nil, invalid("the command is empty")
		case isCommand && ofNode:
			return nil, invalid("a command is started for each node: remove @" + node)
		}
		i := slices.IndexFunc(drivers, func(d cluster.Driver) bool { return d.Name == name })
		if i < 0 {
			i, drivers = len(drivers), append(drivers, cluster.Driver{Name: name})
		}
		d := &drivers[i]
		switch {
		case isCommand && d.Command == nil:
			d.Command = shellCommand(command)
		case isSocket && ofNode && d.NodeSockets[node] == "":
			if d.NodeSockets == nil {
				d.NodeSockets = map[string]string{}
			}
			d.NodeSockets[node] = server
		case isSocket && !ofNode && d.Socket == "":
			d.Socket = server
		default:
			return nil, invalid("it is given twice")
		}
	}
	return drivers, nil
}

// shellCommand returns the command of a driver, which a shell replaces by the program.
func shellCommand(command string) func(at cluster.DriverNode, endpoint string) *exec.Cmd {
	return func(at cluster.DriverNode, endpoint string) *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", "exec "+command)
		cmd.Env = append(os.Environ(), "CSI_ENDPOINT="+endpoint, "NODE_NAME="+at.Name, "KUBELET_DIR="+at.Root)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		return cmd
	}
}

// validate returns an error for invalid options.
func (o *ownDriverOptions) validate(manual bool) error {
	if manual && o.isSet() {
		return errors.New("--by-hand does not support --driver, --more-devices and --without-driver")
	}
	_, err := parseDrivers(o.drivers)
	return err
}
