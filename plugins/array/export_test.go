package array

const DiskKey = diskKey
