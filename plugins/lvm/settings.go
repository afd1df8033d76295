package lvm

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/lvm2"
)

// The settings of a volume: mutable parameters of a VolumeAttributesClass.
const (
	// discardKey selects whether a volume's file system discards freed blocks at once: "true", the
	// default of thin volumes, or "false", that of others. It takes effect when the volume is
	// staged the next time.
	discardKey = "discard"
	// readAheadKey is the kernel's read-ahead of the device in KiB. It takes effect at once.
	// Without it the kernel decides. It needs device-mapper, because a partition shares the
	// read-ahead of its disk.
	readAheadKey = "readAheadKiB"

	readAheadMax = 65536
)

// settings returns the sorted keys of the supported settings.
func (p *pool) settings() []string {
	if p.system.Mode() == lvm2.DeviceMapper {
		return []string{discardKey, readAheadKey}
	}
	return []string{discardKey}
}

// ValidateParameters implements blockcsi.Pool.
func (p *pool) ValidateParameters(parameters, settings map[string]string) error {
	known := []string{layoutKey, mirrorsKey, stripesKey}
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		if !slices.Contains(known, key) {
			return status.Errorf(codes.InvalidArgument, "parameters: unknown key %q (have %s)", key,
				strings.Join(known, ", "))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if err := p.checkSetting(key, settings[key]); err != nil {
			return err
		}
	}
	_, err := p.spec(parameters)
	return err
}

func (p *pool) checkSetting(key, value string) error {
	number, err := strconv.Atoi(value)
	switch {
	case key == readAheadKey && p.system.Mode() != lvm2.DeviceMapper:
		return status.Errorf(codes.InvalidArgument, "mutable_parameters: %s needs device-mapper, which node %s lacks",
			key, p.node)
	case !slices.Contains(p.settings(), key):
		return status.Errorf(codes.InvalidArgument, "mutable_parameters: unknown key %q (have %s)", key,
			strings.Join(p.settings(), ", "))
	case key == readAheadKey && (err != nil || number < 0 || number > readAheadMax):
		return status.Errorf(codes.InvalidArgument, "mutable_parameters: %s is %q, want a number from 0 to %d", key,
			value, readAheadMax)
	case key == discardKey && value != "true" && value != "false":
		return status.Errorf(codes.InvalidArgument, "mutable_parameters: %s is %q, want true or false", key, value)
	}
	return nil
}

// discards reports whether a volume's file system discards freed blocks.
func discards(layout lvm2.Layout, settings map[string]string) bool {
	if value, set := settings[discardKey]; set {
		return value == "true"
	}
	return layout == lvm2.Thin
}

// Modify implements blockcsi.Pool.
func (p *pool) Modify(ctx context.Context, volume blockcsi.Volume, settings map[string]string) error {
	lv, err := p.find(ctx, volume.ID)
	if err != nil {
		return err
	}
	wanted := pairs(tagSetting, settings)
	var add, remove []string
	for _, tag := range lv.Tags {
		if strings.HasPrefix(tag, tagSetting) && !slices.Contains(wanted, tag) {
			remove = append(remove, tag)
		}
	}
	for _, tag := range wanted {
		if !lv.HasTags(tag) {
			add = append(add, tag)
		}
	}
	if err := p.group.Tag(ctx, lv.Name, add, remove); err != nil {
		return p.status(err)
	}
	p.step("settings")
	attached, err := p.attachment(ctx, lv)
	if err != nil || attached == nil || attached.Device == "" {
		return err
	}
	return p.status(configureDevice(attached.Device, attached.ReadOnly, settings))
}

// configureDevice applies the mode and the settings to an attached device.
func configureDevice(device string, isReadOnly bool, settings map[string]string) error {
	if err := blockdev.SetReadOnly(device, isReadOnly); err != nil {
		return err
	}
	ahead, err := strconv.ParseInt(settings[readAheadKey], 10, 64)
	if err != nil {
		return nil // not set
	}
	_, err = blockdev.SetReadAhead(device, ahead)
	return err
}
