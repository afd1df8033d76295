package loop

import "errors"

var (
	errNoLoop      = errors.New("no loop device is free")
	errLoopInUse   = errors.New("the device is in use")
	errLoopLingers = errors.New("somebody holds the device open; it goes once they close it: try again")
)
