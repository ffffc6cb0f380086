// Mixes the bits of v (lowbias32 by Chris Wellons).
uint mixed(uint v) {
    v = (v ^ v >> 16) * 0x7FEB352Du;
    v = (v ^ v >> 15) * 0x846CA68Bu;
    return v ^ v >> 16;
}
