"""Choice of a pretrained model for a set of images: quality, cost, smaller codes, trained heads."""
