package nodefs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	utilexec "k8s.io/utils/exec"
)

// Superblock is the information in a file system's superblock.
type Superblock struct {
	// Type is "ext4" (for ext2 and ext3 as well), "xfs", "btrfs", or "" for any other or none.
	Type string
	// SizeBytes is the size of the file system, BlockBytes of its blocks, DeviceBytes of the
	// device.
	SizeBytes, BlockBytes, DeviceBytes int64
	// UUID identifies the file system to the kernel. OriginalUUID is the one it was made with; its
	// copies share it. UUIDChanging means that a change of the UUID was interrupted. All three are
	// set for btrfs only.
	UUID, OriginalUUID [16]byte
	UUIDChanging       bool
}

// CanGrow reports whether the device is larger than the file system by at least one block.
func (s Superblock) CanGrow() bool {
	return s.BlockBytes > 0 && s.DeviceBytes/s.BlockBytes > s.SizeBytes/s.BlockBytes
}

const (
	btrfsAt           = 0x10000
	btrfsChangingUUID = 1<<35 | 1<<36
	btrfsHasOrigin    = 1 << 10
)

// ReadSuperblock reads the superblock on a device node of the machine. While the file system is
// mounted, the result may be stale. For xfs and btrfs CanGrow then stays true at least as long as
// it holds.
func ReadSuperblock(device string) (Superblock, error) {
	file, err := os.Open(device)
	if err != nil {
		return Superblock{}, err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return Superblock{}, err
	}
	first, second := make([]byte, 4096), make([]byte, 4096)
	for at, part := range map[int64][]byte{0: first, btrfsAt: second} {
		if _, err := file.ReadAt(part, at); err != nil && !errors.Is(err, io.EOF) {
			return Superblock{}, err
		}
	}
	super := readSuperblock(first, second)
	super.DeviceBytes = size
	return super, nil
}

// readSuperblock parses the first bytes of a device and the bytes at btrfsAt.
func readSuperblock(first, second []byte) Superblock {
	little, big := binary.LittleEndian, binary.BigEndian
	ext := first[1024:]
	switch {
	case bytes.HasPrefix(first, []byte("XFSB")):
		block := int64(big.Uint32(first[0x4:]))
		return Superblock{Type: "xfs", BlockBytes: block, SizeBytes: block * int64(big.Uint64(first[0x8:]))}
	case bytes.HasPrefix(second[0x40:], []byte("_BHRfS_M")):
		super := Superblock{
			Type: "btrfs", BlockBytes: int64(little.Uint32(second[0x90:])),
			SizeBytes: int64(little.Uint64(second[0x70:])),
		}
		super.UUIDChanging = little.Uint64(second[0x38:])&btrfsChangingUUID != 0
		copy(super.UUID[:], second[0x20:])
		super.OriginalUUID = super.UUID
		if little.Uint64(second[0xbc:])&btrfsHasOrigin != 0 {
			copy(super.OriginalUUID[:], second[0x23b:])
		}
		return super
	case little.Uint16(ext[0x38:]) == 0xEF53:
		block := int64(1024) << little.Uint32(ext[0x18:])
		blocks := int64(little.Uint32(ext[0x4:]))
		if little.Uint32(ext[0x60:])&0x80 != 0 { // 64bit
			blocks |= int64(little.Uint32(ext[0x150:])) << 32
		}
		return Superblock{Type: "ext4", BlockBytes: block, SizeBytes: block * blocks}
	}
	return Superblock{}
}

// SetUUID gives the unmounted btrfs on a device a new UUID. A file system that has this UUID is
// left unchanged. An interrupted change is completed.
func (r *Real) SetUUID(ctx context.Context, device string, uuid [16]byte) error {
	super, err := ReadSuperblock(device)
	if err != nil || super.Type != "btrfs" || super.UUID == uuid && !super.UUIDChanging {
		return err
	}
	digits := hex.EncodeToString(uuid[:])
	text := digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
	command := contextExec{Interface: utilexec.New(), ctx: ctx}.Command("btrfstune", "-f", "-M", text, device)
	// btrfstune refuses a UUID that libblkid finds on another device. libblkid trusts its cache for
	// two seconds, even if the device of that name has been given to another file.
	command.SetEnv(append(os.Environ(), "BLKID_FILE="+os.DevNull))
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("set the UUID of the file system on %s: btrfstune: %w: %s", device,
			errors.Join(ctx.Err(), err), output)
	}
	return nil
}
