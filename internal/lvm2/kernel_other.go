//go:build !linux

package lvm2

import (
	"context"
	"os"
	"os/exec"

	"github.com/volsim/volsim/internal/blockdev"
)

func hasDeviceMapper() bool                           { return false }
func ownGroup(*exec.Cmd)                              {}
func lockFile(string) (*os.File, error)               { return nil, ErrUnsupported }
func awaitUnlocked(context.Context, string) error     { return ErrUnsupported }
func makeNode(string, string) error                   { return ErrUnsupported }
func remakeNode(string, blockdev.Number) error        { return ErrUnsupported }
func isHole(string) (bool, error)                     { return false, ErrUnsupported }
func discardRange(string, int64, int64) error         { return ErrUnsupported }
func zeroRange(string, int64, int64) error            { return ErrUnsupported }
func readStart(string, []byte) (_, _ uint64, _ error) { return 0, 0, ErrUnsupported }
func partitionsOf(string) ([]partition, error)        { return nil, ErrUnsupported }
func partitionNode(string, int) string                { return "" }
func partitionAt(string) (partition, error)           { return partition{}, ErrUnsupported }
func addPartition(string, partition) error            { return ErrUnsupported }
func resizePartition(string, partition) error         { return ErrUnsupported }
func deletePartition(string, int) error               { return ErrUnsupported }

func copyRange(context.Context, string, int64, string, int64, int64) error { return ErrUnsupported }
func copyDevice(context.Context, string, string, int64, bool) error        { return ErrUnsupported }
