"""Files of any size, read as streams: what they are encoded in, their lines, their JSON, what is packed in them."""
