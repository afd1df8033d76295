//go:build !linux

package flexvolume

import "github.com/volsim/volsim/plugins"

func statFS(string) (plugins.Usage, error) { return plugins.Usage{}, plugins.ErrUnsupported }
