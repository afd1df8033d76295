package lvm2

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/internal/loopdev"
)

const (
	// headSize is the size of the part of a disk with LVM's label and the metadata header.
	headSize = 8192
	// metadataAt is the default offset of that header. The header holds the location and checksum
	// of the metadata, so it differs after every change.
	metadataAt = 4096

	// The label: the number of sectors that may hold it, and the offsets of its fields.
	labelSectors = 4
	labelUUID    = 32
	uuidLength   = 32

	// The offsets of the metadata header's fields.
	headerLength   = 512
	headerMagic    = 4
	headerVersion  = 20
	headerStart    = 24
	headerSize     = 32
	headerLocation = 40

	locationIgnored = 1
	// checksumStart is the initial value of LVM's checksums.
	checksumStart = 0xf597a6cf
)

// Signatures of LVM's on-disk format.
var (
	labelMagic    = []byte("LABELONE")
	metadataMagic = []byte(" LVM2 x[5A%r0N*>")
)

// head is the parsed start of a disk.
type head struct {
	disk   string // name of the disk
	source string // the path that it was read from, and that the metadata can be read from
	raw    []byte
	// uuid is the UUID of the disk's physical volume as metadata writes it, or "".
	uuid string
	// hasMetadata means that the disk keeps metadata, at offset in an area, with a size and a
	// checksum.
	hasMetadata         bool
	areaStart, areaSize uint64
	offset, size        uint64
	checksum            uint32
}

func checksum(data []byte) uint32 {
	return ^crc32.Update(^uint32(checksumStart), crc32.IEEETable, data)
}

// readHead reads the head of a disk. It reports false if the head does not suffice: the disk cannot
// be read, or its metadata header is not at the default offset.
//
// A disk that is a file is read through the file while its loop device is bound to it. LVM bypasses
// the device's cache, so each read of the device waits for the disk.
func (s *System) readHead(disk Disk) (h head, ok bool) {
	h = head{disk: disk.Name, raw: make([]byte, headSize)}
	if disk.Zeroed {
		inode, fileSystem, err := readStart(disk.Path, h.raw)
		bound, peekErr := loopdev.Status(disk.Device)
		if err == nil && peekErr == nil && bound.Mark == DiskMark && bound.Inode == inode &&
			bound.FileSystem == fileSystem {
			h.source = disk.Path
		}
	}
	if h.source == "" {
		h.source = s.node(disk.Name)
		if _, _, err := readStart(h.source, h.raw); err != nil {
			return h, false
		}
	}
	h.uuid = uuidOf(h.raw)
	return h, h.uuid == "" || h.readHeader()
}

// uuidOf returns the UUID in the label at the start of a disk, or "".
func uuidOf(start []byte) (uuid string) {
	for sector := range labelSectors {
		label := start[sector*sectorSize:][:sectorSize]
		if bytes.HasPrefix(label, labelMagic) {
			uuid = formatUUID(string(label[labelUUID:][:uuidLength]))
		}
	}
	return uuid
}

// readHeader parses the metadata header. It reports false if the header is not at the default
// offset.
func (h *head) readHeader() bool {
	header := h.raw[metadataAt:][:headerLength]
	little := binary.LittleEndian
	if !bytes.HasPrefix(header[headerMagic:], metadataMagic) ||
		little.Uint32(header) != checksum(header[headerMagic:]) ||
		little.Uint32(header[headerVersion:]) != 1 || little.Uint64(header[headerStart:]) != metadataAt {
		return false
	}
	location := header[headerLocation:]
	h.areaStart, h.areaSize = metadataAt, little.Uint64(header[headerSize:])
	h.offset, h.size = little.Uint64(location), little.Uint64(location[8:])
	h.checksum = little.Uint32(location[16:])
	h.hasMetadata = h.offset != 0 && little.Uint32(location[20:])&locationIgnored == 0
	return true
}

// formatUUID returns a UUID in LVM's format.
func formatUUID(uuid string) string {
	var parts []string
	for _, length := range []int{6, 4, 4, 4, 4, 4, 6} {
		parts, uuid = append(parts, uuid[:length]), uuid[length:]
	}
	return strings.Join(parts, "-")
}

// readMetadata reads the metadata that a head refers to. It returns errNotSimple if the metadata
// was overwritten since. Any but the last two versions may be.
func (h *head) readMetadata() (string, error) {
	if h.size > h.areaSize || h.offset < headerLength || h.offset >= h.areaSize {
		return "", errNotSimple
	}
	file, err := os.Open(h.source)
	if err != nil {
		return "", err
	}
	defer file.Close()
	// The area is a ring: the rest continues after its header.
	text := make([]byte, h.size)
	first := min(h.size, h.areaSize-h.offset)
	if _, err := file.ReadAt(text[:first], int64(h.areaStart+h.offset)); err != nil {
		return "", err
	}
	if _, err := file.ReadAt(text[first:], int64(h.areaStart+headerLength)); err != nil {
		return "", err
	}
	if checksum(text) != h.checksum {
		return "", errNotSimple
	}
	return string(text), nil
}

// reportOf returns the report of a volume group from the metadata that heads refer to. It returns
// errNotSimple for everything that LVM must judge: missing, duplicate or contradictory disks, and
// volumes that need device-mapper.
func (s *System) reportOf(heads []head, group string) (*Report, error) {
	disks := map[string]string{} // names of disks by UUID
	var keeper *head
	var text string
	for i, each := range heads {
		if each.uuid == "" {
			continue
		}
		if _, duplicate := disks[each.uuid]; duplicate {
			return nil, errNotSimple
		}
		disks[each.uuid] = each.disk
		if !each.hasMetadata {
			continue
		}
		if keeper != nil && keeper.size == each.size && keeper.checksum == each.checksum {
			continue // the same metadata
		}
		found, err := each.readMetadata()
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(found, group+" {") {
			continue // metadata of another volume group
		}
		if keeper != nil {
			return nil, errNotSimple
		}
		keeper, text = &heads[i], found
	}
	if keeper == nil {
		return nil, errNotSimple
	}
	root, err := parseText(text)
	if err != nil {
		return nil, err
	}
	of := root.section(group)
	return of.report(disks)
}

// report converts the section of a volume group to a report.
func (s *section) report(disks map[string]string) (*Report, error) {
	var err error
	if !only(s.list("status"), "RESIZEABLE", "READ", "WRITE") || !only(s.list("flags"), "WRITE_LOCKED") ||
		s.list("lock_type") != nil {
		return nil, errNotSimple
	}
	report := &Report{
		Name: s.name, UUID: s.text("id"), SystemID: s.text("system_id"), Sequence: s.number("seqno", &err),
		ExtentSize: s.number("extent_size", &err) * sectorSize, Tags: sorted(s.list("tags")),
	}
	names := map[string]int{} // index in the report by the physical volume's name in the metadata
	var starts []int64
	for _, each := range s.sections {
		switch each.name {
		case "physical_volumes":
			for _, pv := range each.sections {
				names[pv.name] = len(report.PhysicalVolumes)
				physical, count := pv.physical(disks, report.ExtentSize, &err)
				report.PhysicalVolumes, starts = append(report.PhysicalVolumes, physical), append(starts, count)
			}
		case "logical_volumes":
			for _, lv := range each.sections {
				report.LogicalVolumes = append(report.LogicalVolumes, lv.logical(report, names, &err))
			}
		default:
			err = errNotSimple
		}
	}
	if err != nil {
		return nil, err
	}
	report.countFree(starts)
	return report, nil
}

// physical returns a physical volume and its number of extents.
func (s *section) physical(
	disks map[string]string, extentSize int64, failed *error,
) (physical PhysicalVolume, count int64) {
	name, present := disks[s.text("id")]
	if !present || !only(s.list("status"), "ALLOCATABLE") || len(s.list("flags")) > 0 {
		*failed = errNotSimple
	}
	count = s.number("pe_count", failed)
	return PhysicalVolume{
		Name: name, UUID: s.text("id"), Start: s.number("pe_start", failed) * sectorSize, Size: count * extentSize,
	}, count
}

// logical returns a logical volume that lies directly on disks.
func (s *section) logical(report *Report, names map[string]int, failed *error) LogicalVolume {
	if !only(s.list("status"), "READ", "WRITE", "VISIBLE") || !slices.Contains(s.list("status"), "VISIBLE") ||
		!only(s.list("flags"), "WRITE_LOCKED") {
		*failed = errNotSimple
	}
	volume := LogicalVolume{
		Name: s.name, UUID: s.text("id"), Tags: sorted(s.list("tags")),
		Created:  time.Unix(s.number("creation_time", failed), 0).UTC(),
		ReadOnly: !slices.Contains(s.list("status"), "WRITE") && !slices.Contains(s.list("flags"), "WRITE_LOCKED"),
		major:    -1, minor: -1,
	}
	var end int64
	for _, segment := range s.sections {
		stripes := segment.list("stripes")
		length := segment.number("extent_count", failed)
		if segment.text("type") != "striped" || segment.number("start_extent", failed) != end || len(stripes) < 2 ||
			int64(len(stripes)) != 2*segment.number("stripe_count", failed) || length%int64(len(stripes)/2) != 0 {
			*failed = errNotSimple
			return volume
		}
		end += length
		volume.Layout = Linear
		if len(stripes) > 2 {
			volume.Layout = Striped
		}
		for i := 0; i < len(stripes); i += 2 {
			at, known := names[stripes[i]]
			if !known {
				*failed = errNotSimple
				return volume
			}
			start := section{fields: []field{{"start", stripes[i+1 : i+2]}}}
			volume.Extents = append(volume.Extents, Extent{
				PhysicalVolume: report.PhysicalVolumes[at].Name, Start: start.number("start", failed),
				Length: length / int64(len(stripes)/2),
			})
		}
	}
	if end == 0 {
		*failed = errNotSimple
	}
	volume.Size, volume.Extents = end*report.ExtentSize, mergeExtents(volume.Extents)
	return volume
}

// countFree sorts the report as LVM does and computes the free extents. counts holds the number of
// extents of each physical volume.
func (r *Report) countFree(counts []int64) {
	slices.SortFunc(r.LogicalVolumes, func(a, b LogicalVolume) int { return strings.Compare(a.Name, b.Name) })
	used := map[string][]Extent{}
	for _, volume := range r.LogicalVolumes {
		for _, run := range volume.Extents {
			used[run.PhysicalVolume] = append(used[run.PhysicalVolume], run)
		}
	}
	for i := range r.PhysicalVolumes {
		physical := &r.PhysicalVolumes[i]
		runs := used[physical.Name]
		slices.SortFunc(runs, func(a, b Extent) int { return int(a.Start - b.Start) })
		end := int64(0)
		for _, run := range append(runs, Extent{Start: counts[i]}) {
			if run.Start > end {
				physical.Unused = append(physical.Unused, Extent{
					PhysicalVolume: physical.Name, Start: end, Length: run.Start - end,
				})
				physical.Free += (run.Start - end) * r.ExtentSize
			}
			end = run.Start + run.Length
		}
		r.Size, r.Free = r.Size+physical.Size, r.Free+physical.Free
	}
}

// only reports whether a list has no other words than these.
func only(list []string, words ...string) bool {
	return !slices.ContainsFunc(list, func(word string) bool { return !slices.Contains(words, word) })
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
