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
	// headSize is how much of a disk holds LVM's label and the header of its metadata.
	headSize = 8192
	// metadataAt is where that header is on the disks that LVM makes by default. It
	// says where the metadata is and what its checksum is, so that it differs after
	// every change.
	metadataAt = 4096

	// Of the label: where the sectors are that may have it, and in it what is read here.
	labelSectors = 4
	labelUUID    = 32
	uuidLength   = 32

	// Of the header of metadata.
	headerLength   = 512
	headerMagic    = 4
	headerVersion  = 20
	headerStart    = 24
	headerSize     = 32
	headerLocation = 40

	locationIgnored = 1
	// checksumStart is what LVM's checksums begin with.
	checksumStart = 0xf597a6cf
)

// Words of LVM's format on disks.
var (
	labelMagic    = []byte("LABELONE")
	metadataMagic = []byte(" LVM2 x[5A%r0N*>")
)

// head is what the beginning of a disk says.
type head struct {
	disk   string // its name
	source string // where it was read, and what it tells of can be
	raw    []byte
	// uuid is the physical volume's that the disk is, as metadata writes it; "" of none.
	uuid string
	// hasMetadata says that the disk keeps metadata: so many bytes, with a checksum, at a
	// place in an area.
	hasMetadata         bool
	areaStart, areaSize uint64
	offset, size        uint64
	checksum            uint32
}

func checksum(data []byte) uint32 {
	return ^crc32.Update(^uint32(checksumStart), crc32.IEEETable, data)
}

// readHead reads the head of a disk. It is not ok if that does not say enough: the disk
// cannot be read, or keeps its metadata elsewhere.
//
// A disk that is a file is read as that while its loop device is bound to it: LVM writes
// past the device's cache, so whoever reads the device waits for the disk each time.
func (s *System) readHead(disk Disk) (h head, ok bool) {
	h = head{disk: disk.Name, raw: make([]byte, headSize)}
	if disk.Zeroed {
		inode, fileSystem, err := readStart(disk.Path, h.raw)
		bound, peekErr := loopdev.Status(disk.Device)
		if err == nil && peekErr == nil && bound.Mark == diskMark && bound.Inode == inode && bound.FileSystem == fileSystem {
			h.source = disk.Path
		}
	}
	if h.source == "" {
		h.source = s.node(disk.Name)
		if _, _, err := readStart(h.source, h.raw); err != nil {
			return h, false
		}
	}
	for sector := range labelSectors {
		label := h.raw[sector*sectorSize:][:sectorSize]
		if bytes.HasPrefix(label, labelMagic) {
			h.uuid = formatUUID(string(label[labelUUID:][:uuidLength]))
		}
	}
	return h, h.uuid == "" || h.readHeader()
}

// readHeader reads the header of metadata; false if it is not where it is by default.
func (h *head) readHeader() bool {
	header := h.raw[metadataAt:][:headerLength]
	little := binary.LittleEndian
	if !bytes.HasPrefix(header[headerMagic:], metadataMagic) || little.Uint32(header) != checksum(header[headerMagic:]) ||
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

// formatUUID is a UUID as LVM shows it.
func formatUUID(uuid string) string {
	var parts []string
	for _, length := range []int{6, 4, 4, 4, 4, 4, 6} {
		parts, uuid = append(parts, uuid[:length]), uuid[length:]
	}
	return strings.Join(parts, "-")
}

// readMetadata reads the metadata that a head tells of. It gives errStrange for one
// that has been overwritten since, as any but the last two may be.
func (h *head) readMetadata() (string, error) {
	if h.size > h.areaSize || h.offset < headerLength || h.offset >= h.areaSize {
		return "", errNotSimple
	}
	file, err := os.Open(h.source)
	if err != nil {
		return "", err
	}
	defer file.Close()
	// The area goes round: what does not fit before its end is behind its header.
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

// reportOf makes the report of a volume group of what heads tell of. It gives
// errStrange for whatever is not as it is every day, which LVM has to say something
// about: disks that are missing, that are there twice or that do not agree, and
// volumes that take device-mapper.
func (s *System) reportOf(heads []head, group string) (*Report, error) {
	disks := map[string]string{} // names of disks by UUID
	var keeper *head
	var text string
	for i, each := range heads {
		if each.uuid == "" {
			continue
		}
		if _, twice := disks[each.uuid]; twice {
			return nil, errNotSimple
		}
		disks[each.uuid] = each.disk
		if !each.hasMetadata {
			continue
		}
		if keeper != nil && keeper.size == each.size && keeper.checksum == each.checksum {
			continue // the same
		}
		found, err := each.readMetadata()
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(found, group+" {") {
			continue // another volume group's
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

// report makes a report of the section of a volume group.
func (s *section) report(disks map[string]string) (*Report, error) {
	var err error
	if !only(s.list("status"), "RESIZEABLE", "READ", "WRITE") || !only(s.list("flags"), "WRITE_LOCKED") || s.list("lock_type") != nil {
		return nil, errNotSimple
	}
	report := &Report{
		Name: s.name, UUID: s.text("id"), SystemID: s.text("system_id"), Sequence: s.number("seqno", &err),
		ExtentSize: s.number("extent_size", &err) * sectorSize, Tags: sorted(s.list("tags")),
	}
	names := map[string]int{} // of metadata, and where the physical volume is in the report
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

// physical returns what is said of a physical volume, and how many extents it has.
func (s *section) physical(disks map[string]string, extentSize int64, failed *error) (physical PhysicalVolume, count int64) {
	name, there := disks[s.text("id")]
	if !there || !only(s.list("status"), "ALLOCATABLE") || len(s.list("flags")) > 0 {
		*failed = errNotSimple
	}
	count = s.number("pe_count", failed)
	return PhysicalVolume{Name: name, UUID: s.text("id"), Start: s.number("pe_start", failed) * sectorSize, Size: count * extentSize}, count
}

// logical returns what is said of a logical volume, if it lies on disks as it is.
func (s *section) logical(report *Report, names map[string]int, failed *error) LogicalVolume {
	if !only(s.list("status"), "READ", "WRITE", "VISIBLE") || !slices.Contains(s.list("status"), "VISIBLE") || !only(s.list("flags"), "WRITE_LOCKED") {
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
				PhysicalVolume: report.PhysicalVolumes[at].Name, Start: start.number("start", failed), Length: length / int64(len(stripes)/2),
			})
		}
	}
	if end == 0 {
		*failed = errNotSimple
	}
	volume.Size, volume.Extents = end*report.ExtentSize, mergeExtents(volume.Extents)
	return volume
}

// countFree puts the report in LVM's order, and counts what is free. Counts are how
// many extents each physical volume has.
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
				physical.Unused = append(physical.Unused, Extent{PhysicalVolume: physical.Name, Start: end, Length: run.Start - end})
				physical.Free += (run.Start - end) * r.ExtentSize
			}
			end = run.Start + run.Length
		}
		r.Size, r.Free = r.Size+physical.Size, r.Free+physical.Free
	}
}

// only tells whether nothing but some words is in a list.
func only(list []string, words ...string) bool {
	return !slices.ContainsFunc(list, func(word string) bool { return !slices.Contains(words, word) })
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
