package process

import "github.com/volsim/volsim/sim"

// Config configures New.
type Config struct {
	Process  *sim.Process // of the containers of a node, in a live world
	Root     string       // the node's directory on this machine: the sources of mounts are below it
	LogBytes int          // limit of a run's log; 0 means 10 MiB
}
